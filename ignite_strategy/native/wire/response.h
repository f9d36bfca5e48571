// Responses from messages. Pure.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_RESPONSE_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_RESPONSE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "native/wire/connection.h"

namespace ignite_strategy {

// A response from a whole message; nothing for a notification, which no request of ours asks for. Throws
// Error(kDataLoss) if it is none.
std::optional<Response> ParseResponse(const Version& version, Frame frame);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_RESPONSE_H_
