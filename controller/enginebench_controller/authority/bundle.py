"""What is handed out for a certificate: the files that an agent or a client keeps in its `tls` folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enginebench_controller.authority.issued import Issued, Kind
from enginebench_controller.authority.private_files import make_private_folder, write_private
from enginebench_controller.errors import InputError


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
        key = {} if self.key is None else {f"{kind}.key": self.key}
        revocations = {"ca.crl": self.revocations} if kind is Kind.AGENT else {}
        return key | {f"{kind}.crt": self.certificate, "ca.crt": self.ca_certificate} | revocations

    def write(self, folder: Path) -> None:
        """Write the files into a folder for their owner only. Raises `InputError` where that cannot be."""
        try:
            make_private_folder(folder)
            for name, content in self.files().items():
                write_private(folder / name, content)
        except OSError as error:
            raise InputError(
                f"cannot write to {folder} ({error.strerror or error}): "
                f"the certificate is on record, so get another with `enginebench ca renew {self.issued.name} --out DIR`"
            ) from error
