#include "controllers/paddlejob/decide.h"

#include "controllers/paddlejob/pass.h"

namespace paddleop::controllers::paddlejob {

Plan Decide(const Settings& settings, const Observed& seen) { return Pass(settings, seen).Run(); }

}  // namespace paddleop::controllers::paddlejob
