#include "native/igfs/endpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ignite_strategy {
namespace igfs {

using endpoint::Answer;
using endpoint::Command;
using endpoint::Connection;
using endpoint::FileInfo;
using endpoint::Refusal;
using endpoint::Request;
using endpoint::ResultType;
using endpoint::ServerError;

namespace {

constexpr std::size_t kPiece = 1 << 20;
constexpr std::size_t kInFlight = 4;
constexpr std::size_t kLeastAhead = 256 * 1024;
constexpr std::size_t kMostAhead = kInFlight * kPiece;
constexpr int kOpenAttempts = 5;
constexpr Millis kCloseLimit{1000};

}  // namespace

EndpointReader::EndpointReader(std::shared_ptr<EndpointBackend> backend, Path path, const Wait& wait)
    : backend_(std::move(backend)), path_(std::move(path)), what_(backend_->Describe(path_)) {
  OpenStream(wait);
}

std::unique_ptr<EndpointReader> EndpointReader::Open(std::shared_ptr<EndpointBackend> backend,
                                                     const Path& path, const Wait& wait) {
  return std::unique_ptr<EndpointReader>(new EndpointReader(std::move(backend), path, wait));
}

EndpointReader::~EndpointReader() {
  try {
    if (flying_ == 0) CloseStream(Wait::For(kCloseLimit));
  } catch (const std::exception&) {  // the server closes it with the connection
  }
  Drop();
}

std::uint64_t EndpointReader::size() const {
  const std::lock_guard<std::mutex> lock(size_mutex_);
  return size_;
}

// What is known of the file and its stream belong together: it may be replaced between the two requests.
void EndpointReader::OpenStream(const Wait& wait) {
  for (int attempt = 1;; ++attempt) {
    Found found = backend_->Need(path_, wait);
    if (found.info.is_directory)
      throw Error(Code::kFailedPrecondition, what_ + " is a directory, not a file");
    const std::string where = FormatPath(found.at);
    std::optional<endpoint::Stream> stream;
    endpoint::Lease lease;
    try {
      lease = backend_->client().Keep(wait, [&](Connection& connection, bool) {
        connection.Call(Command::kOpenRead, Request().PutPaths(where, "", false), ResultType::kStream,
                        "opening " + where, wait);
        stream = connection.ReadStream(wait);
      });
    } catch (const ServerError& error) {
      if (error.refusal() != Refusal::kNotFound || attempt == kOpenAttempts) throw;
      continue;
    }
    if (!stream) throw Error(Code::kUnavailable, what_ + ": IGFS opened it without a stream");
    lease_ = std::move(lease);
    stream_ = stream->id;
    if (stream->length != found.info.length && attempt < kOpenAttempts) {
      CloseStream(wait);
      continue;
    }
    found_ = std::move(found);
    found_.info.length = stream->length;
    const std::lock_guard<std::mutex> lock(size_mutex_);
    size_ = stream->length;
    return;
  }
}

void EndpointReader::CloseStream(const Wait& wait) {
  if (!lease_) return;
  lease_->Await(lease_->SendClose(stream_, nullptr, 0, wait), ResultType::kBool, "closing " + what_, wait);
  lease_->ReadBool(wait);
  lease_ = endpoint::Lease();  // for the next user
}

// Forgets everything on its way; the server closes the stream with the connection.
void EndpointReader::Drop() {
  lease_.Discard();
  pieces_.clear();
  flying_ = 0;
}

// Files that this client wrote have an id. Others are the same as long as nothing is known to the contrary.
bool EndpointReader::Same(const FileInfo& info) const {
  if (info.is_directory) return false;
  const auto id = [](const FileInfo& file) {
    const auto found = file.properties.find(kIdProperty);
    return found == file.properties.end() ? std::string() : found->second;
  };
  return id(info) == id(found_.info);
}

// After a lost connection. Another version would give other bytes than those that were read before.
void EndpointReader::Reopen(const Wait& wait) {
  const Found before = found_;
  const std::uint64_t size_before = size();
  OpenStream(wait);
  const FileInfo now = std::exchange(found_, before).info;
  const bool same = Same(now) && now.length >= size_before;
  const bool known = before.info.properties.count(kIdProperty) != 0 || now.mtime == before.info.mtime;
  if (!same || !known) {
    Drop();
    throw Error(Code::kFailedPrecondition,
                what_ + " was replaced or removed while it was open; open it again");
  }
  found_.info.length = now.length;
}

void EndpointReader::LookForMore(const Wait& wait) {
  const auto now = backend_->Info(path_, wait);
  if (!now || !Same(*now) || now->length <= size()) return;
  if (lease_) {
    Drain(wait);
    CloseStream(wait);
  }
  found_.info.mtime = now->mtime;
  Reopen(wait);
}

std::size_t EndpointReader::Read(std::uint64_t offset, std::size_t size, char* out, const Wait& wait) {
  std::unique_lock<std::timed_mutex> lock(mutex_, std::defer_lock);
  while (!lock.try_lock_for(wait.NextSlice("waiting for another read of the file"))) {
  }
  std::uint64_t length = this->size();
  if (offset > length || size > length - offset) {
    LookForMore(wait);
    length = this->size();
  }
  if (offset >= length) return 0;
  const auto available = static_cast<std::size_t>(std::min<std::uint64_t>(size, length - offset));
  for (int attempt = 1;; ++attempt) {
    try {
      if (!lease_) Reopen(wait);
      ReadPieces(offset, available, out, wait);
      return available;
    } catch (const ServerError& error) {
      Drop();
      Explain(error, wait);
    } catch (const Error& error) {
      Drop();
      if (error.code() != Code::kUnavailable || attempt == 2) throw;
    } catch (...) {  // Ctrl-C, as Python's exception
      Drop();
      throw;
    }
  }
}

void EndpointReader::Explain(const ServerError& error, const Wait& wait) {
  const auto now = backend_->Info(found_.at, wait);
  if (now && Same(*now) && now->mtime == found_.info.mtime) throw error;
  throw Error(
      Code::kFailedPrecondition,
      what_ + " was replaced or removed while it was open, and IGFS keeps no old content; open it again (" +
          error.reason() + ")");
}

void EndpointReader::ReadPieces(std::uint64_t offset, std::size_t size, char* out, const Wait& wait) {
  if (offset != next_ || !began_) {
    Drain(wait);
    ahead_ = 0;
  } else {
    ahead_ = std::min(kMostAhead, std::max(kLeastAhead, 2 * ahead_));
  }
  began_ = true;
  Plan(offset, size, out);
  std::size_t copied = 0;
  while (copied < size) {
    SendSome(wait);
    Piece& first = pieces_.front();
    if (!first.done) {
      ReceiveOne(wait);
      continue;
    }
    const std::size_t some = std::min(first.size - first.used, size - copied);
    if (first.own) std::memcpy(out + copied, first.own.get() + first.used, some);
    first.used += some;
    copied += some;
    if (first.used == first.size) pieces_.pop_front();
  }
  next_ = offset + size;
  SendSome(wait);  // they travel while the caller is busy
}

// Adds what is missing for this read, and what comes after it.
void EndpointReader::Plan(std::uint64_t offset, std::size_t size, char* out) {
  const std::uint64_t end = offset + size;
  std::uint64_t at = pieces_.empty() ? offset : pieces_.back().end();
  while (at < end) {
    Piece piece;
    piece.at = at;
    piece.size = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, end - at));
    piece.into = out + (at - offset);
    at = piece.end();
    pieces_.push_back(std::move(piece));
  }
  const std::uint64_t last = std::min<std::uint64_t>(this->size(), end + ahead_);
  // Not in crumbs: a reader of small parts would ask for each of them.
  while (at < last && last - at >= std::min<std::uint64_t>(ahead_ / 2, this->size() - at)) {
    Piece piece;
    piece.at = at;
    piece.size = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, last - at));
    piece.own.reset(new char[piece.size]);
    piece.into = piece.own.get();
    at = piece.end();
    pieces_.push_back(std::move(piece));
  }
}

void EndpointReader::SendSome(const Wait& wait) {
  for (Piece& piece : pieces_) {
    if (flying_ >= kInFlight) return;
    if (piece.request >= 0) continue;
    piece.request = lease_->SendReadBlock(stream_, piece.at, piece.size, wait);
    ++flying_;
  }
}

// The server works on several at once and answers in any order.
void EndpointReader::ReceiveOne(const Wait& wait) {
  const Answer answer = lease_->Receive("reading " + what_, wait);
  const auto piece = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& one) {
    return !one.done && one.request == answer.request;
  });
  if (piece == pieces_.end() || answer.type != ResultType::kBytes || answer.length != piece->size) {
    throw Error(Code::kDataLoss, what_ + ": IGFS answered " + std::to_string(answer.length) +
                                     " bytes to a request that it had to answer with " +
                                     (piece == pieces_.end() ? "nothing" : std::to_string(piece->size)));
  }
  lease_->ReadBytes(piece->into, piece->size, wait);
  piece->done = true;
  --flying_;
}

// Takes what is still on its way, all of it read ahead.
void EndpointReader::Drain(const Wait& wait) {
  while (flying_ > 0) ReceiveOne(wait);
  pieces_.clear();
}

}  // namespace igfs
}  // namespace ignite_strategy
