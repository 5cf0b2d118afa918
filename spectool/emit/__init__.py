"""Hand a launch over: what a shell, a container engine, Kubernetes, systemd or vLLM itself takes."""
