"""The kubectl commands of kubectl_test.py: (arguments, standard input, environment), the last two if needed."""

from standalone import DATA

JOB = (DATA / "seeds-wide-and-deep.yaml").read_text()
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: demo}}
spec:
  automountServiceAccountToken: false
  containers:
  - {name: one, image: "busybox:1.36", command: [sleep, "1"], env: [{name: A, value: b}]}
  - {name: two, image: busybox, ports: [{containerPort: 80}]}
"""
SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s}
spec:
  replicas: 2
  serviceName: s
  selector: {matchLabels: {app: s}}
  template:
    metadata: {labels: {app: s}}
    spec: {containers: [{name: c, image: "i:1"}]}
"""
SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {clusterIP: None, selector: {app: s}, ports: [{name: a, port: 80}]}
"""
CLAIM = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: cmp-pv}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /tmp/x}, storageClassName: ""}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: ""}
"""
EVENT = """
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: new}
eventTime: "2024-01-01T00:00:00.000001Z"
reportingController: example.org/tests
reportingInstance: tests-0
action: Look
reason: Looked
type: Warning
note: "a note\\n"
regarding: {kind: Pod, name: p, namespace: cmp, fieldPath: "spec.containers{one}"}
"""
OLD_EVENT = """
apiVersion: v1
kind: Event
metadata: {name: old}
firstTimestamp: "2024-01-01T00:00:00Z"
lastTimestamp: "2024-01-01T00:01:00Z"
count: 3
source: {component: kubelet, host: node-0}
reason: Started
type: Normal
message: it started
involvedObject: {kind: Pod, name: q, namespace: cmp}
"""

SCRIPT = [
    # ConfigMaps and Secrets: every way to make, read and change one.
    ("create configmap a --from-literal=x=1 --from-literal=y=2",),
    ("create configmap a --from-literal=x=1",),
    ("create secret generic k --from-literal=password=s3cret",),
    ("get configmap a",),
    ("get configmap a -o yaml",),
    ("get configmap a -o json",),
    ("get configmap a -o name",),
    ("get configmap a -o jsonpath={.data.x}",),
    ("get configmap a -o custom-columns=N:.metadata.name,X:.data.x",),
    ("get configmap a -o go-template={{.data.y}}",),
    ("get secret k -o jsonpath={.data.password}",),
    ("get secret k",),
    ("describe secret k",),
    ("label configmap a colour=red",),
    ("label configmap a colour=blue",),
    ("label configmap a colour=blue --overwrite",),
    ("label configmap a colour-",),
    ("annotate configmap a note=hello",),
    ("annotate configmap a note-",),
    ("get configmap -l colour=blue",),
    ("label configmap a colour=green",),
    ("get configmap -l colour=green --no-headers",),
    ("get configmap -l colour!=green,colour -o name",),
    ("get configmap --show-labels -l colour",),
    ("get configmap -L colour -l colour",),
    ("get configmap --field-selector metadata.name=a",),
    ("get configmap --field-selector data.x=1",),
    ("get configmap -l colour --sort-by=.metadata.name",),
    ("patch configmap a --type merge -p {\"data\":{\"x\":\"5\"}}",),
    ("patch configmap a --type merge -p {\"data\":{\"x\":\"5\"}}",),
    ("patch configmap a --type json -p [{\"op\":\"remove\",\"path\":\"/data/y\"}]",),
    ("describe configmap a",),
    ("patch configmap a --type json -p [{\"op\":\"remove\",\"path\":\"/data/y\"}]",),
    ("patch configmap a -p {\"data\":{\"z\":\"6\"}}",),
    ("patch configmap none -p {}",),
    ("get configmap a -o jsonpath={.data}",),
    ("edit configmap a", None, {"KUBE_EDITOR": "sed -i s/x:/w:/"}),
    ("get configmap a -o jsonpath={.data}",),
    ("create configmap d --from-literal=x=1 --dry-run=server -o name",),
    ("get configmap d",),
    ("replace -f -", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"n":"1"}}'),
    ("replace -f -", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"1"},"data":{"n":"1"}}'),
    ("delete configmap a",),
    ("delete configmap a",),
    ("delete configmap a --ignore-not-found",),
    # Apply.
    ("apply -f -", POD),
    ("apply -f -", POD),
    ("apply -f -", POD.replace("busybox:1.36", "busybox:1.37")),
    ("apply -f -", POD.replace("sleep", "wake")),
    ("apply -f -", POD.replace("image:", "imago:")),
    ("apply -f - --validate=ignore", POD.replace("A, value", "A, valu").replace("name: p", "name: q")),
    ("apply -f -", POD.replace("containerPort: 80", "containerPort: many").replace("name: p", "name: r")),
    ("apply -f -", POD.replace("containerPort: 80", "containerPort: 70000").replace("name: p", "name: r")),
    ("apply -f -", POD.replace("name: two", "name: one").replace("name: p", "name: r")),
    ("apply -f -", POD.replace("name: two", "name: Two_").replace("name: p", "name: R_")),
    ("apply -f -", POD.replace("{name: p, ", "{")),
    ("get pods",),
    ("get pods -o wide",),
    ("get pod p -o jsonpath={.spec.containers[0].image}",),
    ("get pods --field-selector status.phase=Pending -o name",),
    ("get pods --field-selector spec.nodeName=x",),
    ("get pods,configmaps -l app=demo",),
    ("wait pod p --for=jsonpath={.status.phase}=Pending --timeout=10s",),
    ("wait pod p --for=condition=Ready --timeout=1s",),
    ("logs p -c one",),
    ("describe pod p",),
    ("describe pods -l app=demo",),
    ("describe pod none",),
    # One event, two groups.
    ("api-resources --api-group=events.k8s.io",),
    ("explain event.regarding --api-version=events.k8s.io/v1",),
    ("create -f -", EVENT),
    ("create -f -", OLD_EVENT),
    ("get events",),
    ("get events -o wide",),
    ("get events.events.k8s.io",),
    ("get events.v1.events.k8s.io new -o name",),
    ("get events old -o jsonpath={.message}{.count}{.involvedObject.name}{.source.component}",),
    ("get events.events.k8s.io old -o jsonpath={.note}{.deprecatedCount}{.regarding.name}{.deprecatedSource.component}",),
    ("get events new -o jsonpath={.message}{.involvedObject.name}{.reportingComponent}{.apiVersion}",),
    ("get events.events.k8s.io new -o jsonpath={.note}{.regarding.name}{.reportingController}{.apiVersion}",),
    ("get events.events.k8s.io --field-selector regarding.name=p",),
    ("get events --field-selector involvedObject.name=p",),
    ("get events.events.k8s.io --field-selector involvedObject.name=p",),
    ("get events.events.k8s.io --field-selector reportingController=example.org/tests -o name",),
    ("events",),
    ("events --for pod/p",),
    ("describe pod p",),
    ("label events.events.k8s.io old colour=red",),
    ("get events -l colour=red -o name",),
    ("patch events.events.k8s.io new --type merge -p {\"series\":{\"count\":2,\"lastObservedTime\":\"2024-01-01T00:00:01.000000Z\"}}",),
    ("patch events.events.k8s.io new --type merge -p {\"note\":\"another\"}",),
    ("patch events new --type merge -p {\"message\":\"another\"}",),
    ("get events.events.k8s.io new -o jsonpath={.note}{.series.count}",),
    ("create -f -", EVENT.replace("name: new", "name: bad").replace("action: Look", "deprecatedCount: 2")),
    ("create -f -", EVENT.replace("name: new", "name: bad").replace("note:", "notes:")),
    ("create -f -", EVENT.replace("name: new", "name: bad").replace("Warning", "Bad").replace("cmp,", "other,")),
    ("delete events.events.k8s.io new",),
    ("delete events --all",),
    ("get events.events.k8s.io",),
    ("delete pod p --wait=false",),
    ("delete pod q --now",),
    ("wait pod p --for=delete --timeout=20s",),
    ("get pods",),
    ("apply -f -", SET),
    ("apply -f -", SET.replace("replicas: 2", "replicas: 3")),
    ("scale statefulset s --replicas=5",),
    ("get statefulset s",),
    ("get sts s -o jsonpath={.spec.replicas}",),
    ("patch sts s -p {\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i:2\"}]}}}}",),
    ("get sts s -o jsonpath={.spec.template.spec.containers[*].image}",),
    ("apply -f -", SET.replace("serviceName: s", "serviceName: t")),
    ("apply -f -", SET.replace("matchLabels: {app: s}", "matchLabels: {app: t}").replace("name: s}", "name: t}")),
    ("apply -f -", SERVICE),
    ("get service s",),
    ("get svc -o wide",),
    ("apply -f -", CLAIM),
    ("get pv cmp-pv",),
    ("get pvc c",),
    ("delete pv cmp-pv --wait=false",),
    ("get all",),
    # Our kinds.
    ("api-resources --api-group=batch.paddlepaddle.org",),
    ("explain paddlejob.spec.worker.replicas",),
    ("explain pdj.spec.intranet",),
    ("explain pod.spec.containers.image",),
    ("explain configmap.immutable",),
    ("explain statefulset.spec.updateStrategy",),
    ("explain pod.spec.nothing",),
    ("apply -f -", JOB),
    ("apply -f -", JOB),
    ("get pdj",),
    ("get paddlejobs.batch.paddlepaddle.org -o name",),
    ("apply -f -", JOB.replace("replicas:", "replica:")),
    ("patch pdj wide-ande-deep --type merge -p {\"spec\":{\"intranet\":\"Nowhere\"}}",),
    ("patch pdj wide-ande-deep --type merge -p {\"spec\":{\"intranet\":5}}",),
    ("patch pdj wide-ande-deep --type merge -p {\"spec\":{\"worker\":{\"replicas\":-1}}}",),
    ("patch pdj wide-ande-deep --type strategic -p {\"spec\":{}}",),
    ("patch pdj wide-ande-deep --subresource=status --type merge -p {\"status\":{\"phase\":\"Running\",\"mode\":\"PS\"}}",),
    ("get pdj wide-ande-deep",),
    ("wait pdj wide-ande-deep --for=jsonpath={.status.phase}=Running --timeout=10s",),
    ("get pdj wide-ande-deep -o jsonpath={.metadata.generation}",),
    ("delete pdj wide-ande-deep",),
    ("get sampleset",),
    ("apply -f -", (DATA / "seeds-sampleset.yaml").read_text()),
    ("get sampleset",),
    ("get crd samplesets.batch.paddlepaddle.org -o name",),
    ("wait crd/samplesets.batch.paddlepaddle.org --for=condition=established --timeout=10s",),
    # What is not there.
    ("get nothing",),
    ("get pod none",),
    ("create -f -", '{"apiVersion":"v1","kind":"Pod"}'),
    ("create -f -", '{"apiVersion":"v9","kind":"Pod","metadata":{"name":"x"}}'),
    ("create -f -", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","labels":{"a b":"c"}}}'),
    ("create -f -", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a b":"c"}}'),
    ("create -f -", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"g-"}}'),
    ("create configmap x -n nowhere",),
    # Nobody there takes the claims' finalizers away.
    ("delete statefulset,service,pvc --all --wait=false",),
]

# Watched while the changes happen.
WATCHES = ["get configmap -w", "get configmap -w -o name", "get configmap -w --output-watch-events",
           "get configmap -w -l colour=red", "get configmap -w -o jsonpath={.metadata.name}:{.data.x};",
           "get configmap first -w", "get events.events.k8s.io -w", "get pods -w -o wide"]
WATCHED = [
    ("create configmap first --from-literal=x=0",),
    ("label configmap first colour=red",),
    ("create -f -", OLD_EVENT.replace("cmp", "watched")),
    ("apply -f -", POD),
]
CHANGES = [
    ("patch configmap first -p {\"data\":{\"x\":\"2\"}}",),
    ("create configmap second --from-literal=x=3",),
    ("label configmap first colour=blue --overwrite",),
    ("delete configmap second",),
    ("create -f -", EVENT.replace("cmp", "watched")),
    ("patch events.events.k8s.io new --type merge -p {\"series\":{\"count\":2,\"lastObservedTime\":\"2024-01-01T00:00:01.000000Z\"}}",),
    ("patch pod p --subresource=status -p {\"status\":{\"phase\":\"Running\",\"podIP\":\"10.0.0.1\"}}",),
    ("delete pod p --now",),
]
# Of pods that run. `until-ends` ends when there is a file `go` beside it, `runs` does not.
RUNNING = """
apiVersion: v1
kind: Pod
metadata: {name: runs, labels: {app: runs}}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - name: one
    image: none
    command: [sh, -c, "for i in 1 2 3; do echo line $i; done; echo also >&2; exec sleep 1000"]
    env: [{name: COLOUR, value: red}]
  - {name: two, image: none, command: [sh, -c, "echo other; exec sleep 1000"]}
---
apiVersion: v1
kind: Pod
metadata: {name: until-ends}
spec:
  automountServiceAccountToken: false
  restartPolicy: Never
  containers:
  - {name: main, image: none, command: [sh, -c, "echo begins; until test -e go; do sleep 0.1; done; echo ends; exit 3"]}
"""
RUNNING_SCRIPT = [
    ("apply -f -", RUNNING),
    ("wait pod runs until-ends --for=condition=Ready --timeout=120s",),
    ("get pods",),
    ("logs until-ends",),
]
ENDED_SCRIPT = [
    ("wait pod until-ends --for=jsonpath={.status.phase}=Failed --timeout=120s",),
    ("logs until-ends --tail=2",),
    ("logs -f until-ends --since=1h",),
    ("get pods",),
    ("logs runs",),
    ("logs runs -c one",),
    ("logs runs -c one --tail=2",),
    ("logs runs -c one --timestamps",),
    ("logs runs -c one --limit-bytes=9",),
    ("logs runs -c two --prefix",),
    ("logs -l app=runs -c two",),
    ("logs runs -c three",),
    ("logs runs -c one --previous",),
    ("logs none",),
    ("describe pod runs",),
    ("describe pod until-ends",),
    ("exec runs -c one -- echo hello",),
    ("exec runs -- printenv COLOUR HOSTNAME",),
    ("exec runs -c one -- false",),
    ("exec runs -c one -- ls /no-such-directory",),
    ("exec runs -c one -- no-such-program",),
    ("exec -i runs -c two -- cat", "some input\nand more"),
    ("exec -i runs -c two -- cat", "by the older protocol", {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}),
    ("exec runs -c one -- false", None, {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}),
    ("exec runs -c three -- true",),
    ("exec until-ends -- true",),
    ("exec none -- true",),
    ("delete pod runs until-ends",),
]
