#!/bin/sh
# Regenerates the wire's Python code beside the .proto files. An old, pinned generator on purpose: code it makes
# loads on every protobuf runtime from 6.30 on and every grpcio from 1.72.2 on, which is what pyproject.toml promises.
# Usage: proto/generate.sh PYTHON [OUTPUT_FOLDER]   (PYTHON has grpcio-tools==1.72.2)
set -eu
cd "$(dirname "$0")"
python=$1
out=${2:-.}
nouns=enginebench_proto/v1/*.proto
services=$(grep -l '^service ' $nouns)
"$python" -m grpc_tools.protoc -I . --python_out="$out" --pyi_out="$out" $nouns
"$python" -m grpc_tools.protoc -I . --grpc_python_out="$out" $services
