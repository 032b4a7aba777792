#include "api/batch/crd.h"

#include <map>

#include "api/batch/internal/pod_schema.h"
#include "api/batch/internal/schema.h"
#include "api/batch/rules.h"
#include "base/check.h"

namespace paddleop::api {
namespace {

using namespace internal;  // the shapes

Json Conditions() {
  Json list = List(Object({{"type", Text()},
                           {"status", Text()},
                           {"observedGeneration", Int64()},
                           {"lastTransitionTime", Instant()},
                           {"reason", Text()},
                           {"message", Text()}},
                          {"type", "status"}));
  list["x-kubernetes-list-type"] = "map";
  list["x-kubernetes-list-map-keys"] = {"type"};
  return list;
}

Json Reference() {
  return Object({{"apiVersion", Text()},
                 {"kind", Text()},
                 {"namespace", Text()},
                 {"name", Text()},
                 {"uid", Text()},
                 {"fieldPath", Text()},
                 {"resourceVersion", Text()}});
}

Json SecretRef() { return Object({{"name", Text()}, {"namespace", Text()}}); }

Json Quantities() {
  const Json& containers =
      CoreSchema("PodTemplateSpec")["properties"]["spec"]["properties"]["containers"];
  return containers["items"]["properties"]["resources"]["properties"]["requests"];
}

Json Role() {
  return Object({{"replicas", Int32()},
                 {"requests", Int32()},
                 {"limits", Int32()},
                 {"template", CoreSchema("PodTemplateSpec")}},
                {"replicas"});
}

Json RoleStatus() {
  return Object({{"pending", Int32()},
                 {"starting", Int32()},
                 {"running", Int32()},
                 {"failed", Int32()},
                 {"succeeded", Int32()},
                 {"unknown", Int32()},
                 {"refs", List(Reference())}});
}

Json PaddleJobSchema() {
  const Json spec = Object({{"cleanPodPolicy", Text()},
                            {"cleanPolicy", Text()},
                            {"intranet", Text()},
                            {"withGloo", Int32()},
                            {"elastic", Int32()},
                            {"schedulingPolicy", Object({{"minAvailable", Int32()},
                                                         {"queue", Text()},
                                                         {"priorityClass", Text()},
                                                         {"minResources", Quantities()}})},
                            {"sampleSetRef", Object({{"name", Text()},
                                                     {"namespace", Text()},
                                                     {"mountPath", Text()},
                                                     {"readOnly", Flag()},
                                                     {"affinity", Text()},
                                                     {"affinityTimeoutSeconds", Int32()},
                                                     {"waitFor", Text()}},
                                                    {"mountPath"})},
                            {"ps", Role()},
                            {"worker", Role()},
                            {"heter", Role()},
                            {"suspend", Flag()},
                            {"backoffLimit", Int32()},
                            {"activeDeadlineSeconds", Int64()},
                            {"ttlSecondsAfterFinished", Int32()}});
  const Json status = Object({{"phase", Text()},
                              {"mode", Text()},
                              {"ps", RoleStatus()},
                              {"worker", RoleStatus()},
                              {"heter", RoleStatus()},
                              {"elastic", Text()},
                              {"startTime", Instant()},
                              {"completionTime", Instant()},
                              {"observedGeneration", Int64()},
                              {"conditions", Conditions()},
                              {"gang", Int32()},
                              {"failures", Int32()},
                              {"lastFailureTime", Instant()},
                              {"relaxedWorkers", List(Int32())}});
  return Object({{"spec", spec}, {"status", status}});
}

Json MountOptionsSchema() {
  return Object({{"metrics", Text()},
                 {"attr-cache", Int32()},
                 {"entry-cache", Int32()},
                 {"dir-entry-cache", Int32()},
                 {"enable-xattr", Flag()},
                 {"get-timeout", Int32()},
                 {"put-timeout", Int32()},
                 {"io-retries", Int32()},
                 {"max-uploads", Int32()},
                 {"buffer-size", Int32()},
                 {"prefetch", Int32()},
                 {"writeback", Flag()},
                 {"cache-dir", Text()},
                 {"cache-size", Int64()},
                 {"free-space-ratio", Short(Text(), 20)},
                 {"cache-partial-only", Flag()},
                 {"open-cache", Int32()},
                 {"sub-dir", Text()}});
}

Json WarmupSchema(bool of_set) {
  Json schema = Object({{"paths", List(Text())},
                        {"partitions", Int32()},
                        {"strategyName", Text()},
                        {"file", Text()},
                        {"threads", Int32()},
                        {"batchSize", Int32()},
                        {"shuffle", Flag()},
                        {"dropLast", Flag()},
                        {"epoch", Int64()},
                        {"ranks", Int32()}});
  if (of_set) schema["properties"]["auto"] = Flag();
  return schema;
}

Json SampleSetSchema() {
  const Json source =
      Object({{"uri", Short(Text(), 4096)}, {"secretRef", SecretRef()}, {"path", Text()}});
  const Json level = Object(
      {{"mediumType", Short(Text(), 16)}, {"path", Short(Text(), 4096)}, {"cacheSize", Int64()}});
  const Json spec =
      Object({{"partitions", Int32()},
              {"source", source},
              {"sources", List(source, 256)},
              {"secretRef", SecretRef()},
              {"noSync", Flag()},
              {"csi", Object({{"driver", Text()}, {"juiceFSMountOptions", MountOptionsSchema()}})},
              {"cache", Object({{"levels", List(level, 16)}})},
              {"nodeAffinity", CoreSchema("NodeAffinity")},
              {"tolerations", List(CoreSchema("Toleration"))},
              {"warmup", WarmupSchema(true)}});
  const Json cache = Object({{"totalSize", Text()},
                             {"totalFiles", Text()},
                             {"cachedSize", Text()},
                             {"diskSize", Text()},
                             {"diskUsed", Text()},
                             {"diskAvail", Text()},
                             {"diskUsageRate", Text()},
                             {"errorMassage", Text()},
                             {"hitRatio", Text()},
                             {"cachedPercent", Text()}});
  const Json status = Object(
      {{"phase", Text()},
       {"cacheStatus", cache},
       {"runtimeStatus",
        Object({{"runtimeReady", Text()}, {"specReplicas", Int32()}, {"readyReplicas", Int32()}})},
       {"jobsName",
        Object({{"syncJobName", Text()}, {"syncOptions", Text()}, {"warmupJobName", Text()}})},
       {"partitions", List(Object({{"index", Int32()},
                                   {"pod", Text()},
                                   {"node", Text()},
                                   {"cachedBytes", Int64()},
                                   {"ready", Flag()},
                                   {"cacheID", Text()}}))},
       {"warmedPartitions", Int32()},
       {"warmupTime", Instant()},
       {"volumeName", Text()},
       {"nodeLabel", Text()},
       {"observedGeneration", Int64()},
       {"conditions", Conditions()}});
  return Object({{"spec", spec}, {"status", status}});
}

Json SyncOptionsSchema() {
  return Object({{"source", Text()},
                 {"destination", Text()},
                 {"start", Text()},
                 {"end", Text()},
                 {"threads", Int32()},
                 {"http-port", Int32()},
                 {"update", Flag()},
                 {"force-update", Flag()},
                 {"perms", Flag()},
                 {"dirs", Flag()},
                 {"dry", Flag()},
                 {"delete-src", Flag()},
                 {"delete-dst", Flag()},
                 {"exclude", Text()},
                 {"include", Text()},
                 {"manager", Text()},
                 {"worker", Text()},
                 {"bwlimit", Int32()},
                 {"no-https", Flag()}});
}

Json SampleJobSchema() {
  const Json count =
      Object({{"total", Int64()}, {"done", Int64()}, {"skipped", Int64()}, {"failed", Int64()}});
  const Json spec = Object({{"type", Text()},
                            {"sampleSetRef", Object({{"name", Text()}})},
                            {"secretRef", SecretRef()},
                            {"terminate", Flag()},
                            {"syncOptions", SyncOptionsSchema()},
                            {"warmupOptions", WarmupSchema(false)},
                            {"rmrOptions", Object({{"paths", List(Text())}})},
                            {"clearOptions", Object({{"paths", List(Text())}})},
                            {"schedule", Text()},
                            {"timeZone", Text()},
                            {"suspend", Flag()},
                            {"concurrencyPolicy", Text()},
                            {"startingDeadlineSeconds", Int64()},
                            {"successfulJobsHistoryLimit", Int32()},
                            {"failedJobsHistoryLimit", Int32()},
                            {"ttlSecondsAfterFinished", Int32()},
                            {"backoffLimit", Int32()}});
  const Json status = Object({{"phase", Text()},
                              {"jobName", Text()},
                              {"attempt", Int32()},
                              {"progress", Object({{"files", count},
                                                   {"bytes", count},
                                                   {"rate", Text()},
                                                   {"eta", Text()},
                                                   {"percent", Text()}})},
                              {"startTime", Instant()},
                              {"completionTime", Instant()},
                              {"message", Text()},
                              {"active", List(Reference())},
                              {"lastScheduleTime", Instant()},
                              {"lastSuccessfulTime", Instant()},
                              {"observedGeneration", Int64()},
                              {"conditions", Conditions()}});
  return Object({{"spec", spec}, {"status", status}});
}

// The node of the schema that describes `field` ("spec.worker").
Json& Locate(Json& schema, std::string_view field) {
  Json* node = &schema;
  while (!field.empty()) {
    const auto dot = field.find('.');
    Json& properties = (*node)["properties"];
    const std::string name(field.substr(0, dot));
    CHECK(properties.contains(name), "a rule names the field {}, which the schema does not have",
          name);
    node = &properties[name];
    field.remove_prefix(dot == std::string_view::npos ? field.size() : dot + 1);
  }
  return *node;
}

template <class T>
Json WithRules(Json schema, std::span<const Rule<T>> rules) {
  for (const auto& rule : rules) {
    Locate(schema, rule.field)["x-kubernetes-validations"].push_back(
        {{"rule", rule.cel}, {"message", rule.message}});
  }
  schema["properties"]["apiVersion"] = Text();
  schema["properties"]["kind"] = Text();
  schema["properties"]["metadata"] = {{"type", "object"}};
  return schema;
}

Json Column(const char* name, const char* type, const char* path, int priority = 0) {
  Json column = {{"name", name}, {"type", type}, {"jsonPath", path}};
  if (priority > 0) column["priority"] = priority;
  return column;
}

Json Definition(const ResourceType& type, const std::string& singular, Json names, Json columns,
                Json schema) {
  names["plural"] = type.plural;
  names["singular"] = singular;
  names["kind"] = type.kind;
  names["listKind"] = std::string(type.kind) + "List";
  return {{"apiVersion", "apiextensions.k8s.io/v1"},
          {"kind", "CustomResourceDefinition"},
          {"metadata", {{"name", fmt::format("{}.{}", type.plural, type.group)}}},
          {"spec",
           {{"group", type.group},
            {"names", std::move(names)},
            {"scope", "Namespaced"},
            {"versions",
             {{{"name", type.version},
               {"served", true},
               {"storage", true},
               {"subresources", {{"status", Json::object()}}},
               {"additionalPrinterColumns", std::move(columns)},
               {"schema", {{"openAPIV3Schema", std::move(schema)}}}}}}}}};
}

}  // namespace

const Json& CoreSchema(std::string_view type) {
  static const Json kSchemas = Json::parse(kPodSchemaJson);
  const auto it = kSchemas.find(type);
  CHECK(it != kSchemas.end(), "no schema of core type {}", type);
  return *it;
}

std::vector<Json> CustomResourceDefinitions() {
  const Json job_columns = {Column("Status", "string", ".status.phase"),
                            Column("Mode", "string", ".status.mode"),
                            Column("Age", "date", ".metadata.creationTimestamp")};
  const Json set_columns = {Column("TOTAL SIZE", "string", ".status.cacheStatus.totalSize"),
                            Column("CACHED SIZE", "string", ".status.cacheStatus.cachedSize"),
                            Column("AVAIL SPACE", "string", ".status.cacheStatus.diskAvail"),
                            Column("Runtime", "string", ".status.runtimeStatus.runtimeReady"),
                            Column("PHASE", "string", ".status.phase"),
                            Column("AGE", "date", ".metadata.creationTimestamp")};
  const Json data_columns = {Column("PHASE", "string", ".status.phase"),
                             Column("TYPE", "string", ".spec.type", 1),
                             Column("PROGRESS", "string", ".status.progress.percent", 1),
                             Column("RATE", "string", ".status.progress.rate", 1),
                             Column("ETA", "string", ".status.progress.eta", 1),
                             Column("MESSAGE", "string", ".status.message", 1),
                             Column("AGE", "date", ".metadata.creationTimestamp", 1)};
  std::vector<Json> all;
  all.push_back(Definition(PaddleJob::kType, "paddlejob", {{"shortNames", {"pdj"}}}, job_columns,
                           WithRules(PaddleJobSchema(), PaddleJobRules())));
  all.push_back(Definition(SampleSet::kType, "sampleset", Json::object(), set_columns,
                           WithRules(SampleSetSchema(), SampleSetRules())));
  all.push_back(Definition(SampleJob::kType, "samplejob", Json::object(), data_columns,
                           WithRules(SampleJobSchema(), SampleJobRules())));
  return all;
}

std::string CrdManifest() {
  std::string out;
  for (const Json& definition : CustomResourceDefinitions()) out += "---\n" + ToYaml(definition);
  return out;
}

}  // namespace paddleop::api
