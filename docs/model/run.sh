#!/bin/sh
# Checks the model: the runs that must hold, and the mutants and limits that must break the property they name.
#
#   run.sh              everything, as a table
#   run.sh quick        what the Go test runs: the main check with one item, and the mutant without a fence
#   run.sh trail NAME   the shortest counterexample found to the mutant or limit NAME, step by step
#
# It needs spin and a C compiler; as root on Debian it installs them when they are missing.
set -eu

model=$(cd "$(dirname "$0")" && pwd)/weir.pml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# name | what pan finds: holds, or the property that breaks | sizes, mutants and limits
runs() {
	cat <<-'END'
	one item        |holds |
	two items       |holds |-DITEMS=2 -DOPERATORS=0 -DLEASE=1 -DHORIZON=1
	two operators   |holds |-DWORKERS=2 -DOPERATORS=2 -DLEASE=1 -DHORIZON=1
	rest            |holds |-DLIVE -DFAULTS=3 -DOPERATORS=0

	fence           |FENCE |-DMUTANT_FENCE
	fence-billed    |ONCE  |-DMUTANT_FENCE
	state           |EDGES |-DMUTANT_STATE
	lock            |EDGES |-DMUTANT_LOCK
	expiry          |SINGLE|-DMUTANT_EXPIRY
	horizon         |ONCE  |-DMUTANT_HORIZON
	undo            |ONCE  |-DMUTANT_UNDO
	no-undo         |REASON|-DMUTANT_NO_UNDO
	identifier      |ONCE  |-DMUTANT_IDENTIFIER
	refusal         |TRUE  |-DMUTANT_REFUSAL
	recover         |TRUE  |-DMUTANT_RECOVER -DWORKERS=2 -DOPERATORS=2 -DLEASE=1 -DHORIZON=1
	abandoned-lease |rest  |-DMUTANT_ABANDONED -DLIVE -DFAULTS=3 -DOPERATORS=0

	frozen          |ONCE  |-DLIMIT_FROZEN
	asleep          |ONCE  |-DLIMIT_ASLEEP
	short-window    |ONCE  |-DWINDOW=HORIZON
	hasty           |ONCE  |-DLIMIT_HASTY
	END
}

die() { echo "run.sh: $*" >&2; exit 1; }

# tools makes sure that spin and a C compiler are there.
tools() {
	command -v spin >/dev/null && command -v gcc >/dev/null && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		apt-get update -qq >/dev/null && apt-get install -y -qq --no-install-recommends spin gcc libc6-dev >/dev/null ||
			die "spin and gcc were not installed: install them and run this again"
		return
	fi
	die "spin and gcc are needed: install them (Debian: apt-get install spin gcc libc6-dev) and run this again"
}

# pan NAME EXPECT FLAGS: compiles the verifier and runs it; its output is $work/out.
pan() {
	cd "$work"
	rm -f -- "$work"/*
	compile='-DSAFETY' search=''
	case $3 in *-DLIVE*) compile='-DNFAIR=3' search='-a -f' ;; esac
	property=''
	# Breadth first finds the shortest counterexample.
	case $2 in holds | rest) ;; *) property="-DPROPERTY=$2" compile="$compile -DBFS" ;; esac
	# shellcheck disable=SC2086 # words of flags
	spin -a $3 $property "$model" >out 2>&1 && gcc -O2 -w -DCOLLAPSE -DMEMLIM=4000 $compile -o pan pan.c >>out 2>&1 ||
		{ cat out >&2; die "$1: the verifier was not built: see above"; }
	# shellcheck disable=SC2086
	./pan -m1000000 -w24 $search >out 2>&1 || true
}

# finding says what the output shows: holds, the property that breaks, or why it says nothing.
finding() {
	if grep -q 'max search depth too small\|out of memory\|search was not completed' out && ! grep -q '^pan:1: \(assertion\|acceptance\)' out; then
		echo incomplete
	elif grep -q '^pan:1: assertion violated' out; then
		# With PROPERTY given, only that one can break.
		echo "$1"
	elif grep -q '^pan:1: acceptance cycle' out; then
		echo rest
	elif grep -q 'errors: 0$' out; then
		echo holds
	else
		echo "unknown"
	fi
}

# vacuous lists the rows of the table that a run never took.
vacuous() { sed -n 's/.*"printf(.\(T[0-9]*q*\) .*/\1/p' out | sort -u | tr '\n' ' '; }

number() { sed -n "s/^ *\([0-9.e+]*\)[[:space:]]*$1.*/\1/p" out | head -1; }

# report NAME EXPECT FLAGS: one line of the table.
report() {
	pan "$1" "$2" "$3"
	found=$(finding "$2")
	seconds=$(sed -n 's/.*elapsed time \([0-9.e-]*\) seconds/\1/p' out | head -1)
	printf '| %-15s | %-6s | %-10s | %10s | %7s | %6s |\n' "$1" "$2" "$found" "$(number 'states, stored')" "${seconds:-0}" "$(number 'total actual memory usage' | cut -d. -f1)"
	[ "$found" = "$2" ] || { tail -40 out >&2; die "$1: expected $2, found $found"; }
	if [ "$1" = "one item" ]; then
		missing=$(vacuous)
		[ -z "$missing" ] || die "one item: never took ${missing}of the table: what holds, holds of nothing"
	fi
}

table() {
	echo '| run             | expect | found      |     states | seconds | MB     |'
	echo '|---|---|---|---:|---:|---:|'
	runs | grep "${1:-|}" | while IFS='|' read -r name expect flags; do
		report "$(echo "$name" | sed 's/ *$//')" "$(echo "$expect" | tr -d ' ')" "$flags"
	done
}

# trail NAME: the counterexample as the printfs of the model tell it.
trail() {
	line=$(runs | grep "^$1 *|") || die "there is no run $1: take one of $(runs | cut -d'|' -f1 | tr -s ' \n' ' ')"
	expect=$(echo "$line" | cut -d'|' -f2 | tr -d ' ') flags=$(echo "$line" | cut -d'|' -f3)
	pan "$1" "$expect" "$flags"
	[ -f weir.pml.trail ] || die "$1: no counterexample"
	echo "$1 breaks $expect:"
	# shellcheck disable=SC2086
	spin -k weir.pml.trail -t -T $flags "-DPROPERTY=$expect" "$model" | sed '/^spin:/,$d;/^ltl/d;/^$/d'
}

tools
case ${1:-all} in
all) table ;;
quick) table '^one item \|^fence ' ;;
trail) trail "${2:?run.sh: trail needs the name of a run}" ;;
*) die "there is no $1: use nothing, quick, or trail NAME" ;;
esac
