"""Which Kubernetes we build, and what tells it its own version."""

VERSION = "v1.33.13"

LINKER_FLAGS = "-s -w " + " ".join(
    f"-X {package}.{variable}={value}"
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    for variable, value in (
        ("gitVersion", VERSION),
        ("gitMajor", "1"),
        ("gitMinor", VERSION.split(".")[1]),
        ("gitTreeState", "clean"),
    )
)
