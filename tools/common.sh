# What the scripts of this folder share; sourced by them. Sets $root and $build.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd -P)
build=${TUTTI_BUILD_DIR:-$root/build}
# What tests, bundles and installations are made from; tools/run is content with less.
complete=(-Dinstruction_sets=all -Dgpu_kernels=true)
report_s=15

# A progress line on a terminal; the next one, or clear_line, takes its place.
say() { if [ -t 2 ]; then printf '\r\033[K%s' "$*" >&2; fi; }
clear_line() { say; }

# What takes long: a progress line, without a terminal a line of its own.
tell() { if [ -t 2 ]; then say "$*"; else echo "$*" >&2; fi; }

# follow REPORT: runs REPORT LINE for every line of stdin, and REPORT alone whenever $report_s went by
# without a terminal.
follow() {
  local line= part= got next=$((SECONDS + report_s))
  while :; do
    got=0
    IFS= read -r -t 1 part || got=$?
    line+=$part
    if [ $got -eq 0 ]; then
      "$1" "$line"
      line=
    elif [ $got -le 128 ]; then
      return 0
    fi
    if [ ! -t 2 ] && [ $SECONDS -ge $next ]; then
      "$1"
      next=$((SECONDS + report_s))
    fi
  done
}

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
  local holder waited=0
  mkdir -p "$build"
  exec 9>>"$build/.lock"
  until flock -w $((waited ? report_s : 0)) 9; do
    holder=$(<"$build/.lock")
    tell "waiting for ${holder:-another script}, which works in $build"
    waited=1
  done
  clear_line
  echo "tools/${0##*/} (process $$)" >"$build/.lock"
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
  tell 'configuring'
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

# Of ninja's lines, '[45/190] Compiling ...'. How long the rest takes: like what is done.
report_compile() {
  if [ $# -eq 0 ]; then
    local spent=$((SECONDS - started)) left=
    [ "$built" -eq 0 ] || left=", about $((spent * (files - built) / built)) s left"
    [ "$files" -eq 0 ] || tell "building: $built of $files files$left"
  elif [[ $1 =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
    built=${BASH_REMATCH[1]} files=${BASH_REMATCH[2]}
    say "${1:0:${COLUMNS:-80}}"
  fi
}

# compile TARGET...: quiet, except for how far it is and what fails.
compile() {
  local status=0 built=0 files=0 started=$SECONDS
  NINJA_STATUS='[%f/%t] ' ninja -C "$build" "$@" </dev/null 2>&1 9>&- | tee "$build/compile.log" |
    follow report_compile || status=1
  clear_line
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

# Of meson's lines, ' 45/136 tutti:comm / limits  OK  22.13s'; without a terminal they are shown as they come.
report_tests() {
  if [ $# -gt 0 ]; then
    [[ ! $1 =~ ^\ *([0-9]+)/([0-9]+)\  ]] || ended=${BASH_REMATCH[1]} tests=${BASH_REMATCH[2]}
    told=$SECONDS
    printf '%s\n' "$1"
  elif [ $((SECONDS - told)) -ge $report_s ]; then
    echo "testing: $ended of ${tests:-the tests} ended in $((SECONDS - started)) s" >&2
  fi
}

# run_tests SETUP ARGUMENTS...: `meson test` with that setup; closes with 'N passed, N failed, N
# skipped'.
run_tests() {
  local setup=$1 status=0 ended=0 tests= told=$SECONDS started=$SECONDS
  shift
  rm -f "$build"/meson-logs/tutti-*.json
  # On a terminal Meson shows by itself how far it is.
  local command=(meson test -C "$build" --no-rebuild --num-processes 2 --print-errorlogs --setup "$setup"
    --logbase tutti "$@")
  if [ -t 1 ]; then
    "${command[@]}" </dev/null || status=$?
  else
    "${command[@]}" </dev/null | follow report_tests || status=$?
  fi
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
