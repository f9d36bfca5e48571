#include "native/igfs/backend.h"

#include "native/igfs/cache_backend.h"
#include "native/igfs/endpoint_backend.h"

namespace ignite_strategy {
namespace igfs {

std::shared_ptr<Backend> Backend::Mount(const Target& target) {
  if (target.kind == BackendKind::kEndpoint) return EndpointBackend::Mount(target);
  return std::make_shared<CacheBackend>(Tree::Mount(target));
}

Error OpenedByTheParent(const std::string& what) {
  return Error(
      Code::kFailedPrecondition,
      what + " was opened for writing by the parent process, which alone can write to it and close it");
}

Error Outward(const Error& error) {
  const bool known = error.code() == Code::kPermissionDenied || error.code() == Code::kUnauthenticated ||
                     error.code() == Code::kResourceExhausted || error.code() == Code::kUnimplemented;
  if (error.server_status() == 0 || known) return error;
  return Error(Code::kUnavailable, error.message(), error.server_status());
}

}  // namespace igfs
}  // namespace ignite_strategy
