#include "native/bulk/bulk_writer.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "native/bulk/affinity.h"
#include "native/scan/cursor.h"
#include "native/wire/pool.h"

namespace ignite_strategy {
namespace {

constexpr std::int16_t kPutAll = 1004, kCachePartitions = 1101;
constexpr std::size_t kCountOffset = 5;  // behind cache id and flags
// How long a connection waits for an answer before it looks whether there is something to send.
constexpr Millis kAnswerSlice{5};

struct Batch {
  Writer payload;
  std::int32_t count = 0;
  std::vector<RowRange> rows;

  void Note(std::int64_t row) {
    if (!rows.empty() && rows.back().second == row) {
      ++rows.back().second;
    } else {
      rows.emplace_back(row, row + 1);
    }
    ++count;
  }
};

// Adds ranges to a sorted list without gaps and overlaps.
std::vector<RowRange> Merged(std::vector<RowRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<RowRange> merged;
  for (const RowRange& range : ranges) {
    if (!merged.empty() && merged.back().second == range.first) {
      merged.back().second = range.second;
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

}  // namespace

struct BulkWriter::State {
  // The batches for one node, or for all of them where any node will do.
  struct Group {
    std::deque<Batch> queue;
    Batch open;             // being filled, by the caller's thread only
    std::size_t limit = 0;  // batches in the queue at the most
    int workers = 0;        // that can still send
  };

  explicit State(const BulkConfig& bulk_config) : config(bulk_config) {}

  const BulkConfig config;
  // Threads stay where they were when the process forks, and with them whoever holds the mutex.
  const pid_t process = getpid();
  bool IsForked() const { return getpid() != process; }
  void RefuseIfForked() const {
    if (!IsForked()) return;
    throw Error(Code::kFailedPrecondition,
                doing + " began in another process, before a fork: it goes on there");
  }

  const std::string doing = "writing to cache '" + config.cache + "'";
  Encoder encoder;
  Writer key_scratch;
  std::size_t last_size = 0;  // of a full batch: what memory to take for the next
  std::optional<PartitionMap> map;
  std::vector<std::size_t> group_of;  // partition -> group
  std::vector<std::thread> threads;
  const std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();

  std::int64_t taken = 0;  // the caller's thread only

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<Group> groups;
  std::int64_t acknowledged = 0;
  std::int64_t in_flight = 0;  // batches
  std::vector<RowRange> unknown;
  std::optional<Error> error;
  bool finishing = false;
  bool stopping = false;
  Clock::time_point drain_until = Clock::time_point::max();
  int running = 0;

  void Connect(const Wait& wait);
  void Route(Lease& lease, const std::vector<std::pair<Endpoint, Uuid>>& nodes, const Wait& wait);
  void Work(Lease lease, const Endpoint& endpoint, std::size_t group);
  void Serve(Connection& connection, std::size_t group, std::list<std::pair<std::int64_t, Batch>>& sent);
  bool Take(std::size_t group, bool may_wait, Batch* batch);
  void Settle(Connection& connection, Response response, std::list<std::pair<std::int64_t, Batch>>& sent);
  void Fail(const Error& failure);
  void Push(std::size_t group, const std::function<void()>& check);
  std::size_t GroupOf(const Writer& key) const;
  void StartBatch(Batch& batch);
  Wait NewWait() const { return Wait{Clock::time_point::max(), cancellation, {}}; }
};

// One connection to each node that answers; the rest are opened by their threads.
void BulkWriter::State::Connect(const Wait& wait) {
  std::vector<std::pair<Endpoint, Lease>> open;
  std::optional<Error> refused;
  for (const Endpoint& endpoint : config.endpoints) {
    try {
      open.emplace_back(endpoint, Pool::Process().Open(endpoint, config.timeouts, wait));
    } catch (const Error& failure) {
      if (failure.code() == Code::kCancelled) throw;
      refused = failure;
    }
  }
  if (open.empty()) throw *refused;
  std::vector<std::pair<Endpoint, Uuid>> nodes;
  for (auto& [endpoint, lease] : open) {
    if (lease->node_id()) nodes.emplace_back(endpoint, *lease->node_id());
  }
  if (config.partition_aware && nodes.size() == open.size() && nodes.size() > 1) {
    Route(open.front().second, nodes, wait);
  }
  if (groups.empty()) groups.resize(1);
  const bool routed = groups.size() > 1;
  for (std::size_t i = 0; i < open.size(); ++i) {
    const std::size_t group = routed ? i : 0;
    groups[group].workers += config.connections;
    groups[group].limit = static_cast<std::size_t>(groups[group].workers);
  }
  running = config.connections * static_cast<int>(open.size());
  for (Group& group : groups) StartBatch(group.open);
  for (std::size_t i = 0; i < open.size(); ++i) {
    for (int connection = 0; connection < config.connections; ++connection) {
      // Only the first one of a node is open already.
      auto lease = std::make_shared<Lease>(connection == 0 ? std::move(open[i].second) : Lease());
      threads.emplace_back([this, lease, endpoint = open[i].first, group = routed ? i : 0] {
        Work(std::move(*lease), endpoint, group);
      });
    }
  }
}

// A group for each node, if clients can compute partitions and every node is primary for some.
void BulkWriter::State::Route(Lease& lease, const std::vector<std::pair<Endpoint, Uuid>>& nodes,
                              const Wait& wait) {
  if (!lease->version().AtLeast(1, 4)) return;
  const std::int32_t cache_id = JavaHash(config.cache);
  Response response = lease->Call(kCachePartitions, Writer().Put<std::int32_t>(1).Put(cache_id),
                                  "asking for the partitions of cache '" + config.cache + "'", wait);
  Reader reader = response.payload();
  std::optional<PartitionMap> found = ParsePartitionMap(reader, cache_id);
  if (!found || found->key_field || found->partitions < 2) return;
  std::vector<std::size_t> routes(static_cast<std::size_t>(found->partitions), nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (std::size_t before = 0; before < i; ++before) {
      if (nodes[before].second == nodes[i].second) return;  // two addresses of one node
    }
    const auto mine = found->primaries.find(nodes[i].second);
    if (mine == found->primaries.end()) continue;
    for (const std::int32_t partition : mine->second) routes[static_cast<std::size_t>(partition)] = i;
  }
  // Partitions of nodes that are not connected go to the others in turn.
  for (std::size_t partition = 0; partition < routes.size(); ++partition) {
    if (routes[partition] == nodes.size()) routes[partition] = partition % nodes.size();
  }
  map = std::move(found);
  group_of = std::move(routes);
  groups.resize(nodes.size());
}

void BulkWriter::State::StartBatch(Batch& batch) {
  batch.payload = CachePrefix(config.cache);
  batch.payload.bytes().reserve(last_size);
  batch.payload.Put<std::int32_t>(0);
  batch.count = 0;
  batch.rows.clear();
}

std::size_t BulkWriter::State::GroupOf(const Writer& key) const {
  const std::optional<std::int32_t> hash = KeyHash(Reader(key.bytes().data(), key.size()));
  return hash ? group_of[static_cast<std::size_t>(PartitionOf(*hash, map->partitions))] : 0;
}

void BulkWriter::State::Push(std::size_t at, const std::function<void()>& check) {
  Group& group = groups[at];
  last_size = group.open.payload.size() + group.open.payload.size() / 16;
  std::memcpy(group.open.payload.bytes().data() + kCountOffset, &group.open.count, sizeof(std::int32_t));
  {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      if (error) throw *error;
      if (stopping) throw Error(Code::kFailedPrecondition, doing + ": it was stopped");
      if (group.queue.size() < group.limit) break;
      changed.wait_for(lock, kWaitSlice);
      if (check) {
        lock.unlock();
        check();
        lock.lock();
      }
    }
    group.queue.push_back(std::move(group.open));
    changed.notify_all();
  }
  group.open = Batch();
  StartBatch(group.open);
}

// The next batch to send; nothing if there is none yet or none any more.
bool BulkWriter::State::Take(std::size_t at, bool may_wait, Batch* batch) {
  Group& group = groups[at];
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    if (error || stopping || cancellation->cancelled()) return false;
    if (!group.queue.empty()) break;
    if (finishing || !may_wait) return false;
    changed.wait_for(lock, kWaitSlice);
  }
  *batch = std::move(group.queue.front());
  group.queue.pop_front();
  ++in_flight;
  changed.notify_all();
  return true;
}

void BulkWriter::State::Fail(const Error& failure) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (!error) error = failure;
  drain_until = std::min<Clock::time_point>(drain_until, Clock::now() + config.timeouts.request);
  changed.notify_all();
}

void BulkWriter::State::Settle(Connection& connection, Response response,
                               std::list<std::pair<std::int64_t, Batch>>& sent) {
  const auto found = std::find_if(sent.begin(), sent.end(),
                                  [&](const auto& each) { return each.first == response.request_id; });
  if (found == sent.end()) throw Error(Code::kInternal, doing + ": an answer to no batch");
  const Batch batch = std::move(found->second);
  sent.erase(found);
  {
    const std::lock_guard<std::mutex> lock(mutex);
    --in_flight;
    if (response.status == 0) {
      acknowledged += batch.count;
    } else {
      unknown.insert(unknown.end(), batch.rows.begin(), batch.rows.end());
    }
    changed.notify_all();
  }
  if (response.status != 0) Fail(connection.ServerError(response, doing));
}

void BulkWriter::State::Serve(Connection& connection, std::size_t group,
                              std::list<std::pair<std::int64_t, Batch>>& sent) {
  while (true) {
    Batch batch;
    const bool room = sent.size() < static_cast<std::size_t>(config.in_flight);
    if (room && Take(group, sent.empty(), &batch)) {
      sent.emplace_back(0, std::move(batch));  // before it is sent: half of it may get out
      sent.back().first = connection.Send(kPutAll, sent.back().second.payload, NewWait());
      sent.back().second.payload = Writer();
      continue;
    }
    if (sent.empty()) return;
    Clock::time_point until;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      until = drain_until;
    }
    Wait wait = NewWait();
    wait.deadline = until;
    if (room) {
      std::optional<Response> response = connection.TryReceive(kAnswerSlice, wait);
      if (response) Settle(connection, std::move(*response), sent);
    } else {
      // A pause now and then, to see whether somebody else failed.
      std::optional<Response> response = connection.TryReceive(Millis{250}, wait);
      if (response) Settle(connection, std::move(*response), sent);
    }
  }
}

void BulkWriter::State::Work(Lease lease, const Endpoint& endpoint, std::size_t group) {
  std::list<std::pair<std::int64_t, Batch>> sent;
  bool connected = static_cast<bool>(lease);
  try {
    if (!connected) {
      lease = Pool::Process().Open(endpoint, config.timeouts, NewWait());
      connected = true;
    }
    Serve(*lease, group, sent);
  } catch (const Error& failure) {
    // A further connection that could not be had is no failure: each group has one that is open from the
    // start, and does the work or fails itself.
    if (connected) {
      const bool named = failure.message().find(doing) != std::string::npos;
      Fail(Error(failure.code(), failure.message() + (named ? "" : " while " + doing),
                 failure.server_status()));
    }
  } catch (const std::exception& failure) {
    Fail(Error(Code::kInternal, doing + ": " + failure.what()));
  }
  if (!sent.empty()) lease.Discard();
  lease = Lease();
  const std::lock_guard<std::mutex> lock(mutex);
  for (const auto& [id, batch] : sent) {
    --in_flight;
    unknown.insert(unknown.end(), batch.rows.begin(), batch.rows.end());
  }
  --groups[group].workers;
  --running;
  changed.notify_all();
}

BulkWriter::BulkWriter(const BulkConfig& config, const Wait& wait) : state_(std::make_shared<State>(config)) {
  if (config.endpoints.empty()) throw Error(Code::kInvalidArgument, "no address to write to");
  if (config.connections < 1 || config.connections > 64 || config.in_flight < 1 || config.in_flight > 64 ||
      config.batch_rows < 1 || config.batch_rows > 1 << 24 || config.batch_bytes < 1 ||
      config.batch_bytes > kMaxFrameBytes / 2) {
    throw Error(Code::kInvalidArgument,
                state_->doing +
                    ": connections and batches in flight are between 1 and 64, a batch has at "
                    "least one row and at most 16,777,216 and 512 MiB");
  }
  state_->Connect(wait);
}

BulkWriter::~BulkWriter() {
  if (state_->IsForked()) {
    new std::shared_ptr<State>(std::move(state_));  // for ever: there is nobody to wait for
    return;
  }
  state_->cancellation->Cancel();
  state_->changed.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

void BulkWriter::Add(const ValueColumn& key, const ValueColumn& value, std::int64_t rows,
                     const std::function<void()>& check) {
  State& state = *state_;
  state.RefuseIfForked();
  const std::int64_t first = state.taken;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::size_t at = 0;
    Batch* batch = nullptr;
    std::size_t before = 0;
    try {
      if (state.groups.size() > 1) {
        state.key_scratch.bytes().clear();
        state.encoder.Write(key, row, state.key_scratch);
        at = state.GroupOf(state.key_scratch);
      }
      batch = &state.groups[at].open;
      before = batch->payload.size();
      if (key.valid != nullptr && key.valid[row] == 0) {
        throw Error(Code::kInvalidArgument, "column " + key.name + " is NULL, which cannot be a key");
      }
      if (value.valid != nullptr && value.valid[row] == 0) {
        throw Error(Code::kInvalidArgument, "column " + value.name + " is NULL, which a cache does not keep");
      }
      state.encoder.Write(key, row, batch->payload);
      state.encoder.Write(value, row, batch->payload);
    } catch (const Error& error) {
      if (batch != nullptr) batch->payload.bytes().resize(before);  // as if the row had not begun
      throw Error(error.code(),
                  state.doing + ", row " + std::to_string(first + row) + ": " + error.message());
    }
    batch->Note(first + row);
    state.taken = first + row + 1;
    if (batch->count >= state.config.batch_rows ||
        batch->payload.size() >= static_cast<std::size_t>(state.config.batch_bytes)) {
      state.Push(at, check);
    }
  }
}

void BulkWriter::Finish(const std::function<void()>& check) {
  State& state = *state_;
  state.RefuseIfForked();
  for (std::size_t at = 0; at < state.groups.size(); ++at) {
    if (state.groups[at].open.count > 0) state.Push(at, check);
  }
  std::unique_lock<std::mutex> lock(state.mutex);
  state.finishing = true;
  state.changed.notify_all();
  while (state.running > 0) {
    state.changed.wait_for(lock, kWaitSlice);
    if (check) {
      lock.unlock();
      check();
      lock.lock();
    }
  }
  if (state.error) throw *state.error;
  if (state.acknowledged != state.taken) {
    throw Error(Code::kUnavailable, state.doing + ": no connection is left to send the last batches");
  }
}

void BulkWriter::Stop(Millis limit) noexcept {
  State& state = *state_;
  if (state.IsForked()) return;
  std::unique_lock<std::mutex> lock(state.mutex);
  const auto deadline = Clock::now() + limit;
  state.stopping = true;
  state.drain_until = std::min<Clock::time_point>(state.drain_until, deadline);
  state.changed.notify_all();
  while (state.running > 0 && Clock::now() < deadline) state.changed.wait_for(lock, kWaitSlice);
  state.cancellation->Cancel();
  while (state.running > 0) state.changed.wait_for(lock, kWaitSlice);
}

BulkReport BulkWriter::Report() const {
  const State& state = *state_;
  BulkReport report;
  report.taken = state.taken;
  if (state.IsForked()) {
    if (report.taken > 0) report.unknown = {{0, report.taken}};
    return report;
  }
  const std::lock_guard<std::mutex> lock(state.mutex);
  report.acknowledged = state.acknowledged;
  report.unknown = Merged(state.unknown);
  std::vector<RowRange> unsent;
  for (const State::Group& group : state.groups) {
    for (const Batch& batch : group.queue) unsent.insert(unsent.end(), batch.rows.begin(), batch.rows.end());
    unsent.insert(unsent.end(), group.open.rows.begin(), group.open.rows.end());
  }
  report.unsent = Merged(std::move(unsent));
  report.nodes = static_cast<int>(state.groups.size());
  report.connections = static_cast<int>(state.threads.size());
  report.partition_aware = state.map.has_value();
  return report;
}

std::int64_t BulkWriter::acknowledged() const {
  if (state_->IsForked()) return 0;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->acknowledged;
}

}  // namespace ignite_strategy
