"""The controller: plans benchmarks, drives agents over the wire, keeps the results and prints them.

Never runs a benchmark itself and never imports an engine plugin; what it knows of targets it learned through gRPC.
"""

import os

# gRPC looks names up by itself otherwise, and not as this machine does: mDNS (nuc.local) and NSS are unknown to it. It
# reads this when it is first imported.
os.environ.setdefault("GRPC_DNS_RESOLVER", "native")
