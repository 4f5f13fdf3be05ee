#!/bin/sh
# Installs the packages of a folder into an empty environment and uses them, and runs the agent
# where there is no other file.
# usage: packaging/check.sh DIST [PYTHON]
set -eu
dist=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${2:-python3}" -m venv "$work/env"
"$work/env/bin/pip" install --quiet --disable-pip-version-check "$dist"/*.whl
cd "$work"
env/bin/perhop run qbss-1-70 --out run > run.txt
tail -n 2 run.txt
env/bin/perhop reserve --help > /dev/null
env/bin/perhop agent --help > /dev/null

mkdir empty
cp "$dist/perhop-agent" empty/
if [ "$(id -u)" = 0 ]; then
  chroot empty /perhop-agent --help
else
  unshare --user --map-root-user chroot empty /perhop-agent --help
fi
echo "the packages in $1 work"
