# What shells do with processes, in one script: its output must not depend on who watches.
set -u

echo "-- pipelines"
seq 1 200 | sed 's/1/one/g' | sort -r | head -5
printf '%s\n' b a c | while read -r letter; do echo "got $letter"; done | sort
seq 1 100000 | head -1
echo "statuses: ${PIPESTATUS[*]}"
false | true | (exit 7) | cat
echo "statuses: ${PIPESTATUS[*]}"

echo "-- subshells"
value=outer
(value=inner; echo "$value"; (echo deeper; exit 3); echo "ended $?")
echo "$value"
text=$(echo "one $(echo "two $(echo three)")")
echo "$text"
count=$(for number in 1 2 3 4 5; do (exit "$number"); echo $?; done | wc -l)
echo "$count"
diff <(seq 1 5) <(seq 2 6)
echo "differs $?"

echo "-- background jobs"
for number in 1 2 3 4; do (exit $((number * 11))) & pids[number]=$!; done
for number in 1 2 3 4; do wait "${pids[number]}"; echo "job $number ended $?"; done
(sleep 100) & sleeper=$!
kill -TERM $sleeper
wait $sleeper
echo "sleeper ended $?"
coproc echoes { while read -r line; do echo "back: $line"; done; }
echo hello >&"${echoes[1]}"
read -r answer <&"${echoes[0]}"
echo "$answer"
eval "exec ${echoes[1]}>&-"
wait

echo "-- traps"
trap 'echo caught USR1' USR1
kill -USR1 $$
bash -c 'trap "echo caught TERM; exit 5" TERM; kill -TERM $$; echo not reached'
echo "ended $?"
{ bash -c 'kill -SEGV $$'; } 2>/dev/null
echo "ended $?"
bash -c 'trap "echo leaving" EXIT; exit 4'
echo "ended $?"

echo "-- here-documents"
cat <<TEXT
value is $value and $(echo substituted)
TEXT
cat <<'TEXT'
value is $value and $(echo not substituted)
TEXT
tr a-z A-Z <<<"a here-string"
long=$(seq -s' ' 1 30000)
wc -c <<<"$long"

echo "-- variables and programs"
env -i PATH="$PATH" sh -c 'echo "empty but for PATH: ${HOME-unset}"; exit 8'
echo "ended $?"
MESSAGE=passed sh -c 'echo "$MESSAGE"'
no-such-program-here
echo "ended $?"
exec 3>third; echo through >&3; exec 3>&-; cat third
set -- $(seq 1 5000); echo "$#" "${5000}"
/bin/echo "$@" | wc -w
find . -name third -exec cat {} \;
seq 1 300 | xargs -n 10 -P 2 echo | sort | cksum
exec bash -c 'echo replaced; exit 6'
