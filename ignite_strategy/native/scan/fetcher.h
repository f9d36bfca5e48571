// Asks the server for type metadata without making whoever decodes rows wait for the answer.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_FETCHER_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_FETCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "native/binary/metadata.h"
#include "native/wire/connection.h"

namespace ignite_strategy {

// Thrown when the metadata of a type is on its way: wait, then decode the row again.
struct TypePending {};

// Asks for the metadata of one type, on a connection of the process's pool.
std::optional<TypeMetadata> FetchType(const Endpoint& endpoint, const Timeouts& timeouts,
                                      std::int32_t type_id, const Wait& wait);

class TypeFetcher {
 public:
  TypeFetcher(std::function<Endpoint()> endpoint, const Timeouts& timeouts);
  ~TypeFetcher();
  TypeFetcher(const TypeFetcher&) = delete;
  TypeFetcher& operator=(const TypeFetcher&) = delete;

  // For TypeCache: the metadata if it has been fetched since the last call for this type, else throws
  // TypePending and has it fetched. Throws the error that fetching ended with.
  std::optional<TypeMetadata> operator()(std::int32_t type_id);
  // True when nothing is on its way any more, waiting until `deadline`.
  bool Await(Clock::time_point deadline, const std::function<void()>& check);

 private:
  struct State;
  std::function<Endpoint()> endpoint_;
  Timeouts timeouts_;
  std::shared_ptr<State> state_;  // shared with the thread that fetches
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_FETCHER_H_
