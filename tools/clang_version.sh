#!/usr/bin/env bash
# Prints the version of clang that the checks use: 19, which the formatting was
# made with, else the newest that has all three tools. Fails if there is none.

for version in 19 $(seq 30 -1 20) 18 17 16; do
  found=0
  for tool in clang++ clang-tidy clang-format; do
    command -v "$tool-$version" >/dev/null && found=$((found + 1))
  done
  if [ "$found" -eq 3 ]; then
    echo "$version"
    exit 0
  fi
done
echo "no clang with clang-tidy and clang-format; run tools/setup.sh check" >&2
exit 1
