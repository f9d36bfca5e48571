#include "native/scan/pages.h"

#include <algorithm>
#include <new>
#include <utility>

#include "native/scan/losses.h"

namespace ignite_strategy {
namespace {

constexpr std::int16_t kCacheGetSize = 1020;
constexpr std::uint8_t kPrimaryRows = 2;  // CachePeekMode.PRIMARY
// What a row is taken for as long as nothing is known about it.
constexpr double kBytesPerRow = 200;

}  // namespace

void Pages::Start() {
  std::thread([self = shared_from_this()] { self->Run(); }).detach();
}

// Runs the first lane and waits for the others.
void Pages::Run() {
  std::optional<Error> error;
  std::vector<std::thread> lanes;
  try {
    Plan();
    for (std::size_t lane = 1; lane < queues_.size(); ++lane)
      lanes.emplace_back([this, lane] { RunLane(static_cast<int>(lane)); });
    RunLane(0);
  } catch (const Error& failure) {
    error = failure;
  } catch (const std::exception& failure) {
    error = Error(Code::kInternal, std::string("reading cache '") + config_.cache + "': " + failure.what());
  }
  for (std::thread& lane : lanes) lane.join();
  try {
    // What was read is whole only if nobody left while it was.
    if (!error && !cancellation_->cancelled()) watch_.Refresh();
  } catch (const Error& failure) {
    error = failure;
  } catch (const std::exception& failure) {
    error = Error(Code::kInternal, std::string("reading cache '") + config_.cache + "': " + failure.what());
  }
  End(std::move(error));
}

void Pages::Plan() {
  std::size_t answered = 0;
  std::shared_ptr<const CacheTopology> topology;
  double partition_bytes = 0;
  // If the configured addresses have died meanwhile, the other nodes of that time may still be there.
  const CacheTopology earlier = Recalled(config_.owners, config_.endpoints);
  for (bool fresh = false;; fresh = true) {
    try {
      Lease lease = AnyConnection(config_, &earlier, 0, fresh, NewWait(), &answered);
      Answered(lease->endpoint());
      topology = watch_.Begin(*lease);
      CheckPartitions(*lease, *topology);
      if (NeedsSize(config_, *topology)) partition_bytes = PartitionBytes(*lease, *topology);
      break;
    } catch (const Error& error) {
      // A connection from the pool may have been dead.
      if (fresh || error.code() != Code::kUnavailable) throw;
    }
  }
  std::vector<Unit> units = MakePlan(config_, *topology, partition_bytes);
  const std::size_t lanes = std::clamp<std::size_t>(static_cast<std::size_t>(config_.parallel_reads), 1,
                                                    std::max<std::size_t>(units.size(), 1));
  const std::lock_guard<std::mutex> lock(mutex_);
  queues_.resize(lanes);
  for (std::size_t i = 0; i < units.size(); ++i) {
    std::deque<Unit>& mine = config_.deterministic ? queues_[i % lanes].units : units_;
    mine.push_back(std::move(units[i]));
  }
}

// The last partitions may be without a node at the moment: then the server decides.
void Pages::CheckPartitions(Connection& connection, const CacheTopology& topology) const {
  if (!config_.partitions || config_.partitions->empty()) return;
  // Servers before 1.4 do not always tell what partitions there are: they are asked for the last one.
  if (!topology.known && connection.version().AtLeast(1, 4)) return;
  const std::int32_t last = *std::max_element(config_.partitions->begin(), config_.partitions->end());
  if (static_cast<std::size_t>(last) < topology.primary.size() ||
      HasPartition(connection, config_.cache, last, NewWait()))
    return;
  const std::size_t count =
      topology.known ? topology.primary.size()
                     : static_cast<std::size_t>(SearchPartitionCount(connection, config_.cache, NewWait()));
  throw Error(Code::kInvalidArgument, "cache '" + config_.cache + "' has no partition " +
                                          std::to_string(last) + ": its partitions are 0 to " +
                                          std::to_string(count - 1));
}

double Pages::PartitionBytes(Connection& connection, const CacheTopology& topology) const {
  Writer request = CachePrefix(config_.cache);
  request.Put<std::int32_t>(1).Put(kPrimaryRows);
  const Response response = connection.Call(kCacheGetSize, request,
                                            "counting the rows of cache '" + config_.cache + "'", NewWait());
  Reader reader = response.payload();
  const auto rows = static_cast<double>(reader.Get<std::int64_t>());
  const double bytes = config_.bytes_per_row > 0 ? config_.bytes_per_row : kBytesPerRow;
  return rows * bytes / static_cast<double>(std::max<std::size_t>(topology.primary.size(), 1));
}

// The border of a lane's thread: no exception passes it.
void Pages::RunLane(int lane) {
  std::optional<Error> error;
  try {
    Lane(lane, config_, pass_, &watch_, this, NewWait()).Run();
  } catch (const Error& failure) {
    error = failure;
  } catch (const std::bad_alloc&) {
    error = Error(Code::kResourceExhausted, "no memory for a page of cache '" + config_.cache + "'");
  } catch (const std::exception& failure) {
    error = Error(Code::kInternal, std::string("reading cache '") + config_.cache + "': " + failure.what());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  queues_[static_cast<std::size_t>(lane)].ended = true;
  if (error && !error_) {
    error_ = std::move(error);
    // The other lanes' rows are of no use any more; in the order of the pages this error comes last.
    if (queues_.size() > 1) cancellation_->Cancel();
  }
  changed_.notify_all();
}

std::optional<Unit> Pages::NextUnit(int lane, const std::string& node) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::deque<Unit>& units = config_.deterministic ? queues_[static_cast<std::size_t>(lane)].units : units_;
  if (units.empty() || cancellation_->cancelled()) return std::nullopt;
  auto next = units.begin();
  if (!config_.deterministic && !node.empty()) {
    next = std::find_if(units.begin(), units.end(), [&](const Unit& unit) { return unit.node == node; });
    if (next == units.end()) next = units.begin();
  }
  Unit unit = std::move(*next);
  units.erase(next);
  return unit;
}

bool Pages::Push(int lane, std::shared_ptr<const Page> page) {
  std::unique_lock<std::mutex> lock(mutex_);
  Queue& queue = queues_[static_cast<std::size_t>(lane)];
  changed_.wait(lock, [&] { return queue.pages.size() < kQueuedPages || cancellation_->cancelled(); });
  if (cancellation_->cancelled()) return false;
  queue.pages.push_back(std::move(page));
  changed_.notify_all();
  return true;
}

void Pages::Failed(const std::shared_ptr<PartitionReport>& report) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failed_) failed_ = report;
}

void Pages::Answered(const Endpoint& endpoint) {
  const std::lock_guard<std::mutex> lock(mutex_);
  endpoint_ = endpoint;
}

void Pages::End(std::optional<Error> error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

int Pages::Ready() const {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const std::size_t lane = (turn_ + i) % queues_.size();
    if (!queues_[lane].pages.empty()) return static_cast<int>(lane);
    // In an order of their own: a lane that is slow keeps its turn.
    if (config_.deterministic && !queues_[lane].ended) return -1;
  }
  return -1;
}

Pages::Outcome Pages::Pop(Millis limit, const std::function<void()>& check,
                          std::shared_ptr<const Page>* page) {
  const auto deadline = Clock::now() + limit;
  std::unique_lock<std::mutex> lock(mutex_);
  int lane;
  while ((lane = Ready()) < 0 && !ended_) {
    const auto now = Clock::now();
    if (now >= deadline) return Outcome::kWait;
    changed_.wait_until(lock, std::min(deadline, now + kWaitSlice));
    if (check && Ready() < 0) {
      lock.unlock();
      check();
      lock.lock();
    }
  }
  if (lane >= 0) {
    Queue& queue = queues_[static_cast<std::size_t>(lane)];
    *page = std::move(queue.pages.front());
    queue.pages.pop_front();
    turn_ = (static_cast<std::size_t>(lane) + 1) % queues_.size();
    changed_.notify_all();
    return Outcome::kPage;
  }
  if (error_) throw *error_;
  return Outcome::kEnd;
}

void Pages::Cancel() {
  cancellation_->Cancel();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Queue& queue : queues_) queue.pages.clear();
  changed_.notify_all();
}

std::shared_ptr<PartitionReport> Pages::failed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failed_;
}

Endpoint Pages::endpoint() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return endpoint_;
}

}  // namespace ignite_strategy
