// Names of this room's metrics; docs/metrics.md lists them for users.
#pragma once

namespace paddleop::kube::metric {

// Labels: verb (get, list, create, patch, update, delete, watch), resource, code (HTTP status, or
// "error").
inline constexpr char kRequests[] = "paddleop_kube_requests_total";
inline constexpr char kRequestsHelp[] = "Requests to the API server";
inline constexpr char kRequestSeconds[] = "paddleop_kube_request_seconds";
inline constexpr char kRequestSecondsHelp[] =
    "Time of a request to the API server, watches left out";
inline constexpr char kRequestsInFlight[] = "paddleop_kube_requests_in_flight";
inline constexpr char kRequestsInFlightHelp[] = "Requests to the API server now under way";

// Label: resource.
inline constexpr char kInformerLists[] = "paddleop_kube_informer_lists_total";
inline constexpr char kInformerListsHelp[] = "Complete lists read by an informer";
inline constexpr char kInformerWatches[] = "paddleop_kube_informer_watches_total";
inline constexpr char kInformerWatchesHelp[] = "Watches opened by an informer";
inline constexpr char kInformerEvents[] = "paddleop_kube_informer_events_total";
inline constexpr char kInformerEventsHelp[] = "Watch events, bookmarks left out";
inline constexpr char kInformerUndecodable[] = "paddleop_kube_informer_undecodable_total";
inline constexpr char kInformerUndecodableHelp[] = "Objects that could not be decoded";
inline constexpr char kInformerObjects[] = "paddleop_kube_informer_objects";
inline constexpr char kInformerObjectsHelp[] = "Objects in an informer's store";

// Label: queue.
inline constexpr char kQueueAdds[] = "paddleop_kube_queue_adds_total";
inline constexpr char kQueueAddsHelp[] = "Keys that entered a work queue";
inline constexpr char kQueueRetries[] = "paddleop_kube_queue_retries_total";
inline constexpr char kQueueRetriesHelp[] = "Keys that entered a work queue after a failure";
inline constexpr char kQueueDepth[] = "paddleop_kube_queue_depth";
inline constexpr char kQueueDepthHelp[] = "Keys that wait for a worker";
inline constexpr char kQueueWaitSeconds[] = "paddleop_kube_queue_wait_seconds";
inline constexpr char kQueueWaitSecondsHelp[] = "Time a key waited for a worker";
inline constexpr char kQueueWorkSeconds[] = "paddleop_kube_queue_work_seconds";
inline constexpr char kQueueWorkSecondsHelp[] = "Time a key was with a worker";

// Labels: controller, result (success, requeue, error).
inline constexpr char kReconciles[] = "paddleop_kube_reconciles_total";
inline constexpr char kReconcilesHelp[] = "Finished reconciles";
inline constexpr char kReconcileSeconds[] = "paddleop_kube_reconcile_seconds";
inline constexpr char kReconcileSecondsHelp[] = "Time of a reconcile";
inline constexpr char kActiveWorkers[] = "paddleop_kube_active_workers";
inline constexpr char kActiveWorkersHelp[] = "Reconciles now running";

// Label: component.
inline constexpr char kEventsRecorded[] = "paddleop_kube_events_recorded_total";
inline constexpr char kEventsRecordedHelp[] = "Events that controllers recorded";
inline constexpr char kEventsDropped[] = "paddleop_kube_events_dropped_total";
inline constexpr char kEventsDroppedHelp[] = "Events dropped because of a limit";
inline constexpr char kEventsFailed[] = "paddleop_kube_events_failed_total";
inline constexpr char kEventsFailedHelp[] = "Events the API server did not take";

inline constexpr char kLeading[] = "paddleop_kube_leader";
inline constexpr char kLeadingHelp[] = "1 while this process leads";

}  // namespace paddleop::kube::metric
