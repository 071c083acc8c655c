from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ModelVersion(_message.Message):
    __slots__ = ("digest", "format", "files")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    format: str
    files: _containers.RepeatedCompositeFieldContainer[ModelFile]
    def __init__(self, digest: _Optional[str] = ..., format: _Optional[str] = ..., files: _Optional[_Iterable[_Union[ModelFile, _Mapping]]] = ...) -> None: ...

class ModelFile(_message.Message):
    __slots__ = ("name", "sha256", "size_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    sha256: str
    size_bytes: int
    def __init__(self, name: _Optional[str] = ..., sha256: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class FindMissingRequest(_message.Message):
    __slots__ = ("sha256",)
    SHA256_FIELD_NUMBER: _ClassVar[int]
    sha256: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sha256: _Optional[_Iterable[str]] = ...) -> None: ...

class FindMissingResponse(_message.Message):
    __slots__ = ("missing",)
    MISSING_FIELD_NUMBER: _ClassVar[int]
    missing: _containers.RepeatedCompositeFieldContainer[MissingFile]
    def __init__(self, missing: _Optional[_Iterable[_Union[MissingFile, _Mapping]]] = ...) -> None: ...

class MissingFile(_message.Message):
    __slots__ = ("sha256", "committed_bytes", "received_bytes")
    SHA256_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_BYTES_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    committed_bytes: int
    received_bytes: int
    def __init__(self, sha256: _Optional[str] = ..., committed_bytes: _Optional[int] = ..., received_bytes: _Optional[int] = ...) -> None: ...

class UploadRequest(_message.Message):
    __slots__ = ("header", "chunk", "deflated")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    DEFLATED_FIELD_NUMBER: _ClassVar[int]
    header: UploadHeader
    chunk: bytes
    deflated: bytes
    def __init__(self, header: _Optional[_Union[UploadHeader, _Mapping]] = ..., chunk: _Optional[bytes] = ..., deflated: _Optional[bytes] = ...) -> None: ...

class UploadHeader(_message.Message):
    __slots__ = ("sha256", "size_bytes", "offset_bytes")
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    size_bytes: int
    offset_bytes: int
    def __init__(self, sha256: _Optional[str] = ..., size_bytes: _Optional[int] = ..., offset_bytes: _Optional[int] = ...) -> None: ...

class UploadResponse(_message.Message):
    __slots__ = ("committed_bytes",)
    COMMITTED_BYTES_FIELD_NUMBER: _ClassVar[int]
    committed_bytes: int
    def __init__(self, committed_bytes: _Optional[int] = ...) -> None: ...

class ListFilesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListFilesResponse(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[CachedFile]
    def __init__(self, files: _Optional[_Iterable[_Union[CachedFile, _Mapping]]] = ...) -> None: ...

class CachedFile(_message.Message):
    __slots__ = ("sha256", "size_bytes", "complete", "used_at_unix_ns")
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    USED_AT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    size_bytes: int
    complete: bool
    used_at_unix_ns: int
    def __init__(self, sha256: _Optional[str] = ..., size_bytes: _Optional[int] = ..., complete: bool = ..., used_at_unix_ns: _Optional[int] = ...) -> None: ...

class DeleteFileRequest(_message.Message):
    __slots__ = ("sha256",)
    SHA256_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    def __init__(self, sha256: _Optional[str] = ...) -> None: ...

class DeleteFileResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
