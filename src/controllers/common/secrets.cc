#include "controllers/common/secrets.h"

#include <fmt/format.h>

namespace paddleop::controllers {
namespace {

bool SharedWith(const api::ObjectMeta& meta, std::string_view ns) {
  std::string_view list = meta.Annotation(kSharedWithAnnotation);
  while (!list.empty()) {
    const auto comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (item == "*" || item == ns) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

std::string SecretView::Problem(std::string_view field) const {
  switch (state) {
    case State::kNone:
      return fmt::format("{}.name is needed: the Secret that says which volume holds the data",
                         field);
    case State::kMissing:
      return fmt::format("{}: there is no Secret {} in namespace {}; create it", field, key.name,
                         key.ns);
    case State::kRefused:
      return fmt::format(
          "{}: Secret {} of namespace {} is not shared with this one; annotate it with {} = this "
          "namespace",
          field, key.name, key.ns, kSharedWithAnnotation);
    case State::kFound:
      break;
  }
  return "";
}

Result<SecretView> ReadSecret(const Context& ctx, kube::ClusterClient& client,
                              const std::optional<api::SecretReference>& ref,
                              const std::string& ns) {
  SecretView view;
  if (!ref || ref->name.empty()) return view;
  view.key = {ref->ns.empty() ? ns : ref->ns, ref->name};
  auto raw = client.Get(ctx, api::SecretObject::kType, view.key);
  if (!raw && IsNotFound(raw.error())) {
    view.state = SecretView::State::kMissing;
    return view;
  }
  if (!raw) {
    return std::unexpected(
        std::move(raw).error().Wrap(fmt::format("read Secret {}", view.key.ToString())));
  }
  ASSIGN_OR_RETURN(auto secret, api::ParseAs<api::SecretObject>(raw->json));
  if (view.key.ns != ns && !SharedWith(secret.metadata, ns)) {
    view.state = SecretView::State::kRefused;
    return view;
  }
  view.state = SecretView::State::kFound;
  view.secret = std::make_shared<const api::SecretObject>(std::move(secret));
  return view;
}

}  // namespace paddleop::controllers
