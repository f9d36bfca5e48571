#include "native/scan/fetcher.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "native/wire/pool.h"

namespace ignite_strategy {
namespace {

constexpr std::int16_t kBinaryTypeGet = 3002;

}  // namespace

struct TypeFetcher::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::int32_t> wanted;  // the type that was asked for last and not collected
  bool fetching = false;
  std::optional<TypeMetadata> type;
  std::optional<Error> error;
  std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
};

std::optional<TypeMetadata> FetchType(const Endpoint& endpoint, const Timeouts& timeouts,
                                      std::int32_t type_id, const Wait& wait) {
  Lease lease = Pool::Process().Acquire(endpoint, timeouts, wait);
  const std::string doing = "asking for the fields of type " + std::to_string(type_id);
  const Response response = lease->Call(kBinaryTypeGet, Writer().Put(type_id), doing, wait);
  Reader reader = response.payload();
  try {
    return ParseTypeMetadata(reader);
  } catch (const Error& error) {
    throw Error(error.code(),
                endpoint.ToString() + ": unreadable answer while " + doing + ": " + error.message());
  }
}

TypeFetcher::TypeFetcher(std::function<Endpoint()> endpoint, const Timeouts& timeouts)
    : endpoint_(std::move(endpoint)), timeouts_(timeouts), state_(std::make_shared<State>()) {}

TypeFetcher::~TypeFetcher() { state_->cancellation->Cancel(); }

std::optional<TypeMetadata> TypeFetcher::operator()(std::int32_t type_id) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->fetching) throw TypePending();
  if (state_->wanted == type_id) {
    state_->wanted.reset();
    if (state_->error) throw *std::exchange(state_->error, std::nullopt);
    return std::exchange(state_->type, std::nullopt);
  }
  state_->wanted = type_id;
  state_->fetching = true;
  state_->type.reset();
  state_->error.reset();
  std::thread([state = state_, endpoint = endpoint_(), timeouts = timeouts_, type_id] {
    std::optional<TypeMetadata> type;
    std::optional<Error> error;
    try {
      type = FetchType(endpoint, timeouts, type_id, Wait{Clock::time_point::max(), state->cancellation, {}});
    } catch (const Error& failure) {
      error = failure;
    } catch (const std::exception& failure) {
      error = Error(Code::kInternal, failure.what());
    }
    const std::lock_guard<std::mutex> locked(state->mutex);
    state->type = std::move(type);
    state->error = std::move(error);
    state->fetching = false;
    state->changed.notify_all();
  }).detach();
  throw TypePending();
}

bool TypeFetcher::Await(Clock::time_point deadline, const std::function<void()>& check) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  while (state_->fetching) {
    const auto now = Clock::now();
    if (now >= deadline) return false;
    state_->changed.wait_until(lock, std::min<Clock::time_point>(deadline, now + kWaitSlice));
    if (check && state_->fetching) {
      lock.unlock();
      check();
      lock.lock();
    }
  }
  return true;
}

}  // namespace ignite_strategy
