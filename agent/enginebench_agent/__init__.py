"""The agent: the small gRPC server on a target, and the child processes in which engines live.

The server's process never imports an engine, NumPy or anything else that is not in the base of the distribution.
"""

import os

# gRPC looks names up by itself otherwise, and not as this machine does: mDNS (nuc.local) and NSS are unknown to it. It
# reads this when it is first imported.
os.environ.setdefault("GRPC_DNS_RESOLVER", "native")
