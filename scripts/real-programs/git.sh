# A repository's life: made, filled, packed, cloned. Dates and names are fixed, so every
# hash in the output is the same in every run.
set -eu
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
git config --global init.defaultBranch trunk
git config --global gc.autoDetach false
git config --global pack.threads 2
git init -q first
cd first
for number in $(seq 1 12); do
    export GIT_AUTHOR_DATE="2020-01-01T00:00:$number+0000" GIT_COMMITTER_DATE="2020-01-01T00:00:$number+0000"
    mkdir -p "folder$((number % 3))"
    seq "$number" $((number * 500)) >"folder$((number % 3))/file$number"
    git add .
    git commit -q -m "commit $number"
done
git log --stat --format='%H %s'
git checkout -q -b side HEAD~3
seq 5 50 >side
git add side
git commit -q -m side
git merge -q -m merged trunk
git gc -q --prune=now
git count-objects -v | grep -v size
git fsck --strict
git log --graph --oneline
cd ..
git clone -q --no-local first second
git -C second rev-parse HEAD
git -C second diff --shortstat HEAD~4
git -C second grep -c 77 -- folder1
git -C second nonsense 2>/dev/null || echo "ended $?"
