# What the scripts of this folder share; sourced by them. Sets $root and $build.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd -P)
build=${TUTTI_BUILD_DIR:-$root/build}

# A progress line on a terminal; the next one, or clear_line, takes its place.
say() { if [ -t 2 ]; then printf '\r\033[K%s' "$*" >&2; fi; }
clear_line() { say; }

# setup_features FEATURE...: tools/setup, skipped where this very script has already succeeded here.
setup_features() {
  local feature new=()
  for feature in "$@"; do
    cmp -s "$root/tools/setup" "$build/.setup-$feature" || new+=("$feature")
  done
  [ ${#new[@]} -gt 0 ] || return 0
  "$root/tools/setup" "${new[@]}" >&2
  for feature in "${new[@]}"; do cp "$root/tools/setup" "$build/.setup-$feature"; done
}

# Until the script ends, or release_build, no other script changes the build folder.
lock_build() {
  mkdir -p "$build"
  exec 9>"$build/.lock"
  flock 9
}
release_build() { exec 9>&-; }

# Prints the log of what failed without the lines of what went well.
show_failure() {
  clear_line
  grep -v -E '^(\[[0-9]+/[0-9]+\]|ninja: Entering)' "$1" >&2 || true
}

# configure OPTION...: makes the build folder, or changes the options it was made with. `configure
# any` takes it as it is, whatever its options.
configure() {
  local have= how=()
  [ -f "$build/.options" ] && have=$(<"$build/.options")
  if [ ! -f "$build/build.ninja" ] || [[ $have != "$root "* ]]; then
    # Half made, or a copy of another clone's: anew.
    [ ! -d "$build/meson-private" ] || how=(--wipe)
    have=
  else
    how=(--reconfigure)
  fi
  if [ "$1" = any ]; then
    [ -z "$have" ] || return 0
    shift
  fi
  [ "$have" != "$root $*" ] || return 0
  say 'configuring'
  rm -f "$build/.options"
  if ! meson setup "${how[@]}" --buildtype=release "$@" "$build" "$root" </dev/null \
      >"$build/configure.log" 2>&1; then
    show_failure "$build/configure.log"
    echo "configuring $build failed" >&2
    return 1
  fi
  clear_line
  echo "$root $*" >"$build/.options"
}

# compile TARGET...: quiet, except for what fails.
compile() {
  local status=0 line
  if [ -t 2 ]; then
    ninja -C "$build" "$@" </dev/null 2>&1 9>&- | tee "$build/compile.log" |
      while IFS= read -r line; do
        [[ $line != \[* ]] || say "${line:0:${COLUMNS:-80}}"
      done || status=1
    clear_line
  else
    ninja -C "$build" "$@" </dev/null >"$build/compile.log" 2>&1 9>&- || status=1
  fi
  if [ $status -ne 0 ]; then
    show_failure "$build/compile.log"
    echo 'the build failed' >&2
    return 1
  fi
}

# targets_of_tests without SUITE... | named NAME...: what the tests outside these suites, or those with
# these names, need, for ninja.
targets_of_tests() {
  python3 - "$build" "$@" <<'END'
import json, os, sys
build, how, words = sys.argv[1], sys.argv[2], set(sys.argv[3:])
def read(what):
    return json.load(open(f"{build}/meson-info/intro-{what}.json"))
tests = read("tests")
if how == "named":
    unknown = words - {test["name"] for test in tests}
    if unknown:
        sys.exit("no test is called " + ", ".join(sorted(unknown)))
    tests = [test for test in tests if test["name"] in words]
else:
    words |= {"long", "timing"}
    tests = [test for test in tests if not words & {suite.split(":")[-1] for suite in test["suite"]}]
files = {target["id"]: target["filename"] for target in read("targets")}
needed = {target for test in tests for target in test["depends"]}
print(*sorted(os.path.relpath(file, build) for target in needed for file in files[target]), sep="\n")
END
}

# run_tests SETUP ARGUMENTS...: `meson test` with that setup; closes with 'N passed, N failed, N
# skipped'.
run_tests() {
  local setup=$1 status=0
  shift
  rm -f "$build"/meson-logs/tutti-*.json
  meson test -C "$build" --no-rebuild --num-processes 2 --print-errorlogs --setup "$setup" \
    --logbase tutti "$@" </dev/null || status=$?
  python3 - $status "$build/meson-logs/tutti-$setup.json" <<'END'
import json, sys
status, log = int(sys.argv[1]), sys.argv[2]
try:
    results = [json.loads(line)["result"] for line in open(log)]
except OSError:
    results = []
passed = sum(r in ("OK", "EXPECTEDFAIL") for r in results)
skipped = results.count("SKIP")
failed = len(results) - passed - skipped
if failed == 0 and (status != 0 or not results):
    failed = 1  # meson itself; or no test has the name asked for
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed > 0)
END
}
