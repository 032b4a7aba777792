#include "kube/client/cluster_client.h"

namespace paddleop::kube {

Result<RawObject> ClusterClient::CreateSubresource(const Context& /*ctx*/,
                                                   const GroupVersionResource& resource,
                                                   const ObjectKey& key,
                                                   std::string_view subresource,
                                                   std::string_view /*json*/) {
  return Fail(Code::kNotSupported, "create {} {}/{}", ResourceName(resource), key.ToString(),
              subresource);
}

Result<std::string> ListAll(const Context& ctx, ClusterClient& client,
                            const GroupVersionResource& resource, const std::string& ns,
                            ListOptions options,
                            const std::function<Result<void>(RawObject)>& each) {
  if (options.limit == 0) options.limit = 500;
  for (;;) {
    ASSIGN_OR_RETURN(ListPage page, client.List(ctx, resource, ns, options));
    for (RawObject& object : page.items) RETURN_IF_ERROR(each(std::move(object)));
    if (page.continue_token.empty()) return page.resource_version;
    options.continue_token = std::move(page.continue_token);
  }
}

}  // namespace paddleop::kube
