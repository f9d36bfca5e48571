#include "native/scan/pages.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <thread>
#include <utility>

namespace ignite_strategy {
namespace {

// How long a dropped pass may take to leave the connection fit for reuse.
constexpr Millis kCloseLimit{2000};
// Rows of the page that measures rows of unknown size.
constexpr std::int32_t kProbeRows = 16;

// The error with the query in its text, which the wire does not know.
Error Named(const Error& error, const Query& query) {
  if (error.message().find(query.Describe()) != std::string::npos) return error;
  return Error(error.code(), error.message() + " (" + query.Describe() + ")", error.server_status());
}

}  // namespace

std::int32_t PageRows(double bytes_per_row) {
  const double rows = std::floor(kPageBytes / std::max(bytes_per_row, 1.0));
  return static_cast<std::int32_t>(std::clamp(rows, 1.0, static_cast<double>(kMaxPageRows)));
}

void Pages::Start() {
  std::thread([self = shared_from_this()] { self->Run(); }).detach();
}

void Pages::Run() {
  std::optional<Error> error;
  try {
    if (!config_.partitions) {
      ReadPartition(-1);
    } else {
      for (const std::int32_t partition : *config_.partitions) ReadPartition(partition);
    }
  } catch (const Error& failure) {
    error = failure;
  } catch (const std::bad_alloc&) {
    error = Error(Code::kResourceExhausted, "no memory for a page of cache '" + config_.cache + "'");
  } catch (const std::exception& failure) {
    error = Error(Code::kInternal, std::string("reading cache '") + config_.cache + "': " + failure.what());
  }
  lease_ = Lease();
  End(std::move(error));
}

Wait Pages::NewWait() const { return Wait{Clock::time_point::max(), cancellation_, {}}; }

void Pages::Connect(bool fresh) {
  const Endpoint& endpoint = config_.endpoints[endpoint_index_];
  lease_ = Lease();
  lease_ = fresh ? Pool::Process().Open(endpoint, config_.timeouts, NewWait())
                 : Pool::Process().Acquire(endpoint, config_.timeouts, NewWait());
  const std::lock_guard<std::mutex> lock(mutex_);
  shared_endpoint_index_ = endpoint_index_;
}

void Pages::ReadPartition(std::int32_t partition) {
  auto report = NewPartitionReport(pass_, config_.cache, partition);
  Query query{config_.cache, partition, config_.local, 0};
  rows_pushed_ = false;
  // One more attempt on the same node, in case a pooled connection had died, and one on each other node.
  std::size_t attempts = config_.endpoints.size() + 1;
  bool fresh = false;
  while (true) {
    try {
      if (!lease_ || fresh) Connect(fresh);
      query.page_rows = ChoosePageRows(query);
      const auto& node_id = lease_->node_id();
      report->SetSource(node_id ? node_id->ToString() : "", lease_->endpoint().ToString());
      report->state = PartitionReport::kReading;
      Cursor cursor(&*lease_, query, NewWait());
      try {
        ReadPages(cursor, report);
      } catch (...) {
        if (!cursor.Close(kCloseLimit)) lease_.Discard();
        throw;
      }
      return;
    } catch (const Error& error) {
      lease_ = Lease();
      // Rows that were handed out must not come again: from then on a broken connection ends the pass.
      const bool retry = error.code() == Code::kUnavailable && !rows_pushed_ && --attempts > 0;
      if (!retry) {
        Fail(report, error);
        throw Named(error, query);
      }
      if (fresh) endpoint_index_ = (endpoint_index_ + 1) % config_.endpoints.size();
      fresh = true;
    }
  }
}

std::int32_t Pages::ChoosePageRows(const Query& query) {
  if (config_.page_size > 0) return config_.page_size;
  if (rows_seen_ == 0 && config_.bytes_per_row <= 0) {
    Query probe = query;
    probe.page_rows = kProbeRows;
    Cursor cursor(&*lease_, probe, NewWait());
    const PageData page = cursor.Receive(NewWait());
    rows_seen_ += page.rows;
    bytes_seen_ += static_cast<std::int64_t>(page.frame.size());
    if (!cursor.Close(kCloseLimit))
      throw Error(Code::kUnavailable, lease_->endpoint().ToString() + ": the connection was lost");
  }
  if (rows_seen_ == 0) return PageRows(config_.bytes_per_row > 0 ? config_.bytes_per_row : kPageBytes / 1024);
  return PageRows(static_cast<double>(bytes_seen_) / static_cast<double>(rows_seen_));
}

void Pages::ReadPages(Cursor& cursor, const std::shared_ptr<PartitionReport>& report) {
  while (!cursor.finished()) {
    auto page = std::make_shared<Page>();
    static_cast<PageData&>(*page) = cursor.Receive(NewWait());
    page->report = report;
    rows_seen_ += page->rows;
    bytes_seen_ += static_cast<std::int64_t>(page->frame.size());
    if (page->rows > 0) rows_pushed_ = true;
    if (!Push(std::move(page))) throw Error(Code::kCancelled, "the pass was dropped");
  }
}

void Pages::Fail(const std::shared_ptr<PartitionReport>& report, const Error& error) {
  report->state = error.code() == Code::kCancelled ? PartitionReport::kDropped : PartitionReport::kFailed;
  const std::lock_guard<std::mutex> lock(mutex_);
  failed_ = report;
}

bool Pages::Push(std::shared_ptr<const Page> page) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return queue_.size() < kQueuedPages || cancellation_->cancelled(); });
  if (cancellation_->cancelled()) return false;
  queue_.push_back(std::move(page));
  changed_.notify_all();
  return true;
}

void Pages::End(std::optional<Error> error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
  error_ = std::move(error);
  changed_.notify_all();
}

Pages::Outcome Pages::Pop(Millis limit, const std::function<void()>& check,
                          std::shared_ptr<const Page>* page) {
  const auto deadline = Clock::now() + limit;
  std::unique_lock<std::mutex> lock(mutex_);
  while (queue_.empty() && !ended_) {
    const auto now = Clock::now();
    if (now >= deadline) return Outcome::kWait;
    changed_.wait_until(lock, std::min(deadline, now + kWaitSlice));
    if (check && queue_.empty()) {
      lock.unlock();
      check();
      lock.lock();
    }
  }
  if (!queue_.empty()) {
    *page = std::move(queue_.front());
    queue_.pop_front();
    changed_.notify_all();
    return Outcome::kPage;
  }
  if (error_) throw *error_;
  return Outcome::kEnd;
}

void Pages::Cancel() {
  cancellation_->Cancel();
  const std::lock_guard<std::mutex> lock(mutex_);
  queue_.clear();
  changed_.notify_all();
}

std::shared_ptr<PartitionReport> Pages::failed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failed_;
}

Endpoint Pages::endpoint() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return config_.endpoints[shared_endpoint_index_];
}

}  // namespace ignite_strategy
