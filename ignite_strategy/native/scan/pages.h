// The I/O side of a pass: threads that fetch pages into bounded queues.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_PAGES_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_PAGES_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "native/scan/config.h"
#include "native/scan/lane.h"
#include "native/scan/report.h"
#include "native/scan/watch.h"

namespace ignite_strategy {

// Pages per connection that wait to be decoded, at most. With the one that its thread holds and the one that
// the consumer decodes this bounds a pass's memory, however many rows there are.
constexpr std::size_t kQueuedPages = 2;

class Pages : public LaneWork, public std::enable_shared_from_this<Pages> {
 public:
  enum class Outcome { kPage, kWait, kEnd };

  explicit Pages(const ScanConfig& config)
      : config_(config),
        pass_(NewPass()),
        watch_(config_, NewWait()),
        endpoint_(config_.endpoints.empty() ? Endpoint() : config_.endpoints.front()) {}
  // Starts the threads, which keep this alive until they have cleaned up.
  void Start();
  // The next page, waiting up to `limit`; after the last one kEnd, or the error that ended the pass thrown.
  Outcome Pop(Millis limit, const std::function<void()>& check, std::shared_ptr<const Page>* page);
  // Nobody wants more: the threads close their cursors and return their connections, in the background.
  void Cancel();
  // The partition that the error which ended the pass happened in; null if there is none.
  std::shared_ptr<PartitionReport> failed() const;
  // The node that answers, once known; the first one of the list before that.
  Endpoint endpoint() const;

  // For the lanes.
  std::optional<Unit> NextUnit(int lane, const std::string& node) override;
  bool Push(int lane, std::shared_ptr<const Page> page) override;
  void Failed(const std::shared_ptr<PartitionReport>& report) override;
  void Answered(const Endpoint& endpoint) override;

 private:
  struct Queue {
    std::deque<std::shared_ptr<const Page>> pages;
    std::deque<Unit> units;  // of this lane alone, when the order counts
    bool ended = false;
  };

  void Run();
  void Plan();
  void RunLane(int lane);
  void CheckPartitions(Connection& connection, const CacheTopology& topology) const;
  double PartitionBytes(Connection& connection, const CacheTopology& topology) const;
  void End(std::optional<Error> error);
  // The lane whose page comes next; -1 if there is none yet.
  int Ready() const;
  Wait NewWait() const { return Wait{Clock::time_point::max(), cancellation_, {}}; }

  const ScanConfig config_;
  const std::int64_t pass_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  Watch watch_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Queue> queues_;  // per lane
  std::deque<Unit> units_;     // for whichever lane comes first, when the order does not count
  std::size_t turn_ = 0;       // the lane whose turn it is
  bool ended_ = false;
  std::optional<Error> error_;
  std::shared_ptr<PartitionReport> failed_;
  Endpoint endpoint_;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_PAGES_H_
