#include "base/scheduling.h"

#include <sched.h>

namespace paddleop {

void SetThreadBatch() {
  if (::sched_getscheduler(0) != SCHED_OTHER) return;
  const sched_param none = {};
  // Where it is not allowed, the work only takes a little longer.
  ::sched_setscheduler(0, SCHED_BATCH, &none);
}

}  // namespace paddleop
