#!/usr/bin/env bash
# Write every deployment down as Kubernetes manifests: rendered/NAME.yaml, which the cluster follows.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p rendered
for file in deployments/*/serve.yaml; do
  name=$(basename "$(dirname "$file")")
  spectool serve "$file" --emit k8s > "rendered/$name.yaml.new"
  mv "rendered/$name.yaml.new" "rendered/$name.yaml"
  echo "rendered/$name.yaml"
done
