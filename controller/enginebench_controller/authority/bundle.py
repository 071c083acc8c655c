"""What is handed out for a certificate: the files that an agent or a client keeps in its `tls` folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enginebench_controller.authority.issued import Issued
from enginebench_controller.errors import InputError
from enginebench_proto.agreed.durable import PRIVATE, make_private_folder, write_whole
from enginebench_proto.agreed.meeting import CA_CERTIFICATE, REVOCATIONS, certificate_name, key_name
from enginebench_proto.agreed.roles import CertificateKind


@dataclass(frozen=True)
class Bundle:
    """A certificate, beside the authority's own certificate and list of revocations, in PEM.

    `key` is None where somebody else has it.
    """

    issued: Issued
    certificate: bytes
    ca_certificate: bytes
    revocations: bytes
    key: bytes | None = field(default=None, repr=False)

    def files(self) -> Mapping[str, bytes]:
        """The content of each file by its name; only agents ask who was revoked."""
        kind = self.issued.kind
        key = {} if self.key is None else {key_name(kind): self.key}
        revocations = {REVOCATIONS: self.revocations} if kind is CertificateKind.AGENT else {}
        return key | {certificate_name(kind): self.certificate, CA_CERTIFICATE: self.ca_certificate} | revocations

    def write(self, folder: Path) -> None:
        """Write the files into a folder for their owner only. Raises `InputError` where that cannot be."""
        try:
            make_private_folder(folder)
            for name, content in self.files().items():
                write_whole(folder / name, content, mode=PRIVATE)
        except OSError as error:
            raise InputError(
                f"cannot write to {folder} ({error.strerror or error}): "
                f"the certificate is on record, so get another with `enginebench ca renew {self.issued.name} --out DIR`"
            ) from error
