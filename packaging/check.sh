#!/bin/sh
# Installs the packages of a folder into an empty environment and uses them, and runs the agent
# where there is no other file. With `sdist`, builds and installs the source archive instead of the
# wheel.
# usage: packaging/check.sh DIST [PYTHON [sdist]]
set -eu
dist=$(cd "$1" && pwd)
wheel=$(echo "$dist"/perhop-[0-9]*-manylinux*_"$(uname -m)".whl)
test -f "$wheel" || { echo "$dist has no manylinux wheel for $(uname -m)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${2:-python3}" -m venv "$work/env"
if [ "${3:-}" = sdist ]; then
  "$work/env/bin/pip" install --quiet --disable-pip-version-check "$dist"/perhop-[0-9]*.tar.gz \
    "$dist"/perhop_services-*.tar.gz
else
  "$work/env/bin/pip" install --quiet --disable-pip-version-check "$wheel" "$dist"/*-any.whl
fi
# Away from the sources, which must not be imported.
cd "$work"
env/bin/perhop --version | tee version.txt
grep -q '(release build)' version.txt
env/bin/perhop run qbss-1-70 --out run > run.txt
tail -n 2 run.txt
env/bin/perhop reserve --help > /dev/null
env/bin/perhop agent --help > /dev/null
# The page, which is built before the packages.
env/bin/python -c 'from perhop.studio import Studio; Studio().server_close()'

mkdir empty
cp "$dist/perhop-agent" empty/
if [ "$(id -u)" = 0 ]; then
  chroot empty /perhop-agent --help
else
  unshare --user --map-root-user chroot empty /perhop-agent --help
fi
echo "the packages in $1 work"
