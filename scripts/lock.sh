#!/usr/bin/env bash
# Writes down exactly which files are installed: one list for development and CI, one for the image.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v uv >/dev/null || { echo "error: uv is not installed; hint: pip install uv"; exit 1; }

lock() {
  local file=$1
  shift
  # What builds the package is locked as well: nothing else is installed then.
  printf 'pip>=24\nsetuptools>=77\n' | uv pip compile pyproject.toml - "$@" --quiet --upgrade \
    --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
    --no-emit-index-url --no-emit-find-links --output-file "$file"
  sed -i '1i # Written by `make lock`; installed with pip install --require-hashes.' "$file"
  echo "$file: $(grep -c '==' "$file") packages"
}

lock requirements.lock --extra dev
lock deploy/requirements.lock --extra fleet --extra clickhouse --extra postgres --extra rabbitmq
