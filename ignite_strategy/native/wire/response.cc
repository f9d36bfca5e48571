#include "native/wire/response.h"

#include <utility>

namespace ignite_strategy {
namespace {

constexpr std::int16_t kFlagError = 1;
constexpr std::int16_t kFlagTopologyChanged = 2;
constexpr std::int16_t kFlagNotification = 4;

}  // namespace

std::optional<Response> ParseResponse(const Version& version, Frame frame) {
  Response response;
  Reader reader(frame.data(), frame.size());
  response.request_id = reader.Get<std::int64_t>();
  bool failed;
  if (version.AtLeast(1, 4)) {
    const auto flags = reader.Get<std::int16_t>();
    if (flags & kFlagNotification) return std::nullopt;
    if (flags & kFlagTopologyChanged) {
      response.topology_changed = true;
      response.topology_version = reader.Get<std::int64_t>();
      response.topology_minor = reader.Get<std::int32_t>();
    }
    failed = (flags & kFlagError) != 0;
    if (failed) response.status = reader.Get<std::int32_t>();
  } else {
    response.status = reader.Get<std::int32_t>();
    failed = response.status != 0;
  }
  if (failed) {
    response.message = reader.TypedString().value_or("no message");
    if (response.status == 0) response.status = 1;  // an error flag without a status is still an error
  }
  response.payload_offset = reader.offset();
  response.frame = std::move(frame);
  return response;
}

}  // namespace ignite_strategy
