"""What the cases of one test program share; the program sets it before they run."""

cluster = None
manager = None
identity = None  # the kubeconfig of the manager
