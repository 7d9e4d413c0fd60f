#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "base/recycled.h"
#include "net/certificate_names.h"
#include "net/key_exchange.h"
#include "net/tls_files.h"

namespace weir::net {
namespace {

constexpr uint32_t kNewKeys = 8;  // that a peer may ask for, in ten seconds
// The random of a ServerHello that is a HelloRetryRequest begins so (RFC 8446 §4.1.3); it follows the message's header
// and the version.
constexpr std::string_view kRetryRandom = "\xCF\x21\xAD\x74\xE5\x9A\x61\x11";
constexpr size_t kRandomAt = 6;
// The most bytes of certificates that a peer may show: OpenSSL makes room for as many as their message announces, and
// then for what it reads in them.
constexpr long kLongestCertificates = 32 << 10;
constexpr uint64_t kCertificateBytes = 3 * kLongestCertificates;

using ContextOwner = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

// RFC 7301: ours are h2, then http/1.1. OpenSSL has checked that the peer's list is well-formed.
int select_alpn(SSL*, const unsigned char** chosen, unsigned char* length, const unsigned char* offered, unsigned size,
                void*) {
  static constexpr unsigned char kOurs[] = "\x02h2\x08http/1.1";
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, length, kOurs, sizeof kOurs - 1, offered, size) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

base::Status load_files(SSL_CTX* context, const TlsOptions& options) {
  if (auto status = use_certificate(context, options.certificate, options.key); !status.ok()) return status;
  if (options.client_ca.empty()) return {};
  if (SSL_CTX_load_verify_file(context, options.client_ca.c_str()) != 1)
    return file_failure("client CA", options.client_ca);
  auto* names = SSL_load_client_CA_file(options.client_ca.c_str());
  if (!names) return file_failure("client CA", options.client_ca);
  SSL_CTX_set_client_CA_list(context, names);
  SSL_CTX_set_max_cert_list(context, kLongestCertificates);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // A ticket would let its bearer in without showing the certificate again.
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  return {};
}

base::Result<ContextOwner> client_context(const std::string& ca_file, TlsContext::Offer offer) {
  ERR_clear_error();
  ContextOwner context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  if (!context) return base::failure(base::Code::kInternal, "TLS: " + openssl_reason());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_max_cert_list(context.get(), kLongestCertificates);
  if (auto status = use_curves(context.get()); !status.ok()) return status;
  if (auto status = use_ciphers_of_curves(context.get()); !status.ok()) return status;
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  static constexpr unsigned char kHttp1[] = "\x08http/1.1", kHttp2[] = "\x02h2";
  const bool h2 = offer == TlsContext::Offer::kHttp2;
  SSL_CTX_set_alpn_protos(context.get(), h2 ? kHttp2 : kHttp1, unsigned(h2 ? sizeof kHttp2 : sizeof kHttp1) - 1);
  if (ca_file.empty() ? SSL_CTX_set_default_verify_paths(context.get()) != 1
                      : SSL_CTX_load_verify_file(context.get(), ca_file.c_str()) != 1)
    return file_failure("certificates of authorities in", ca_file);
  return context;
}

}  // namespace

base::Result<std::shared_ptr<const TlsContext>> TlsContext::load(const TlsOptions& options) {
  ERR_clear_error();
  ContextOwner context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (!context) return base::failure(base::Code::kInternal, "TLS: " + openssl_reason());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Sessions are resumed by tickets, which their bearers keep. A cache here would be 20,000 of them that nobody pays
  // for, behind one lock for all shards.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(context.get(), select_alpn, nullptr);
  if (auto status = use_curves(context.get()); !status.ok()) return status;
  if (auto status = use_ciphers_of_curves(context.get()); !status.ok()) return status;
  if (auto status = load_files(context.get(), options); !status.ok()) return status;
  return std::make_shared<const TlsContext>(context.release());
}

base::Result<std::shared_ptr<const TlsContext>> TlsContext::for_client(const std::string& ca_file, Offer offer) {
  auto context = client_context(ca_file, offer);
  if (!context) return std::move(context).error();
  return std::make_shared<const TlsContext>(context->release());
}

base::Result<std::shared_ptr<const TlsContext>> TlsContext::for_member(const Mutual& files, Offer offer) {
  auto context = client_context(files.ca, offer);
  if (!context) return std::move(context).error();
  if (auto status = use_certificate(context->get(), files.certificate, files.key); !status.ok()) return status;
  return std::make_shared<const TlsContext>(context->release(), Names::kAny);
}

int64_t TlsContext::expires() const {
  const X509* certificate = SSL_CTX_get0_certificate(context_);
  std::tm end{};
  if (!certificate || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) return 0;
  return ::timegm(&end);
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

// A BIO whose source is the bytes that were just read and whose sink is the bytes to be written.
struct TlsSession::Bio {
  static int read(BIO* bio, char* into, int size) {
    auto& session = self(bio);
    auto& input = session.input_;
    BIO_clear_retry_flags(bio);
    const size_t n = std::min(size_t(size), input.size());
    if (n > 0 && !session.hello_.allows(input.first(n))) session.hello_too_long_ = true;
    if (n == 0 || session.hello_too_long_) {
      input = {};
      BIO_set_retry_read(bio);
      return -1;
    }
    std::memcpy(into, input.data(), n);
    input = input.subspan(n);
    return int(n);
  }
  static int write(BIO* bio, const char* from, int size) {
    BIO_clear_retry_flags(bio);
    auto& output = self(bio).output_;
    if (output.empty()) output = base::SpareText::take();
    output.append(from, size_t(size));
    return size;
  }
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static TlsSession& self(BIO* bio) { return *static_cast<TlsSession*>(BIO_get_data(bio)); }
  static BIO* make(TlsSession* session) {
    static BIO_METHOD* const kMethod = [] {
      BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir");
      BIO_meth_set_read(method, read);
      BIO_meth_set_write(method, write);
      BIO_meth_set_ctrl(method, control);
      return method;
    }();
    BIO* bio = BIO_new(kMethod);
    if (!bio) return nullptr;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    return bio;
  }
};

TlsSession::TlsSession(const TlsContext& context, Memory memory)
    : memory_(memory.ledger, base::MemoryKind::kInput, 0, memory.owner) {
  if (!may_begin(context)) {
    refuse(SSL_AD_INTERNAL_ERROR, "there is no memory for a handshake");
    return;
  }
  ssl_.make(context.get());
  connect_buffers();
  SSL_set_accept_state(ssl_.get());
}

TlsSession::TlsSession(const TlsContext& context, const std::string& host, Memory memory)
    : memory_(memory.ledger, base::MemoryKind::kInput, 0, memory.owner) {
  if (!may_begin(context)) {
    state_ = State::kFailed, error_ = "there is no memory for a handshake";
    return;
  }
  ssl_.make(context.get());
  connect_buffers();
  SSL_set_connect_state(ssl_.get());
  if (context.names() == TlsContext::Names::kAny) return;
  ERR_clear_error();
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str()) == 1) return;
  ERR_clear_error();
  SSL_set_hostflags(ssl_.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  // Without the name nothing would be checked but the signature: then no handshake at all.
  if (SSL_set1_host(ssl_.get(), host.c_str()) != 1 || SSL_set_tlsext_host_name(ssl_.get(), host.c_str()) != 1) fail();
}

bool TlsSession::may_begin(const TlsContext& context) {
  const bool asks = (SSL_CTX_get_verify_mode(context.get()) & SSL_VERIFY_PEER) != 0;
  return memory_.take(kHandshakeBytes + (asks ? kCertificateBytes : 0));
}

void TlsSession::connect_buffers() {
  BIO* bio = Bio::make(this);
  if (!bio) throw std::bad_alloc();
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_msg_callback(ssl_.get(), watch_messages);
  SSL_set_msg_callback_arg(ssl_.get(), this);
}

// KeyUpdate is the one handshake message that TLS 1.3 lets a peer repeat for ever (RFC 8446 §4.6.3). TLS 1.2 lets a
// peer ask for a renegotiation again and again: each is refused by a warning (RFC 5746 §4.5). One SSL_read works on as
// many of either as there is input for, ten thousand in one read of the socket, so that the input ends here.
void TlsSession::watch_messages(int write, int, int type, const void* data, size_t n, SSL*, void* self) {
  const auto* octets = static_cast<const unsigned char*>(data);
  auto& session = *static_cast<TlsSession*>(self);
  if (write && type == SSL3_RT_HANDSHAKE && n >= kRandomAt + kRetryRandom.size() && octets[0] == SSL3_MT_SERVER_HELLO &&
      std::memcmp(octets + kRandomAt, kRetryRandom.data(), kRetryRandom.size()) == 0)
    session.hello_.expect_another();
  const bool update = !write && type == SSL3_RT_HANDSHAKE && n > 0 && octets[0] == SSL3_MT_KEY_UPDATE;
  const bool refusal = write && type == SSL3_RT_ALERT && n == 2 && octets[1] == SSL_AD_NO_RENEGOTIATION;
  if (!update && !refusal) return;
  if (++session.new_keys_ > kNewKeys) session.input_ = {};
}

size_t TlsSession::open(std::span<std::byte> plain, base::Time now) {
  if (state_ == State::kHandshake) handshake();
  if (state_ != State::kOpen) return 0;
  const bool charged = wake();
  if (now - new_keys_since_ > std::chrono::seconds(10)) new_keys_since_ = now, new_keys_ = 0;
  size_t filled = 0;
  // Each SSL_read opens one record.
  while (filled < plain.size()) {
    size_t n = 0;
    ERR_clear_error();
    int result = SSL_read_ex(ssl_.get(), plain.data() + filled, plain.size() - filled, &n);
    filled += n;
    if (new_keys_ > kNewKeys) {
      error_ = "too many key updates or renegotiations", state_ = State::kFailed;
      return 0;
    }
    if (result == 1) continue;
    int why = SSL_get_error(ssl_.get(), result);
    if (why == SSL_ERROR_ZERO_RETURN)
      state_ = State::kPeerClosed;
    else if (why != SSL_ERROR_WANT_READ)
      fail();
    else if (!charged && keeps_record())
      error_ = "there is no memory for a record", state_ = State::kFailed;
    break;
  }
  return filled;
}

void TlsSession::rest() {
  if (std::exchange(used_, false) || ssl_.asleep() || state_ != State::kOpen) return;
  if (!output().empty() || keeps_record()) return;
  ssl_.rest();
  if (std::exchange(resting_, true)) return;
  memory_.give(kOpenBytes - kRestBytes);
  memory_.trim();
}

// False: there is no memory for records, or the owner has its share.
bool TlsSession::wake() {
  used_ = true;
  if (resting_ && memory_.take(kOpenBytes - kRestBytes)) resting_ = false;
  return !resting_;
}

// Whether OpenSSL has kept its buffer for a record of which a part has come: of its header, or of its body.
bool TlsSession::keeps_record() const {
  return SSL_has_pending(ssl_.get()) == 1 || std::string_view(SSL_rstate_string(ssl_.get())) != "RH";
}

void TlsSession::handshake() {
  ERR_clear_error();
  int result = SSL_do_handshake(ssl_.get());
  if (hello_too_long_) return refuse(SSL_AD_ILLEGAL_PARAMETER, "the client's hello is too long");
  if (result == 1) {
    state_ = State::kOpen;
    memory_.give(memory_.used() - std::min(memory_.used(), kOpenBytes));
  } else if (SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ)
    fail();
}

// An alert that OpenSSL does not write: nothing is encrypted yet (RFC 8446 §6).
void TlsSession::refuse(unsigned char alert, const char* why) {
  state_ = State::kFailed;
  error_ = why;
  const unsigned char record[] = {SSL3_RT_ALERT, TLS1_2_VERSION_MAJOR, TLS1_2_VERSION_MINOR, 0, 2, SSL3_AL_FATAL,
                                  alert};
  output_.append(reinterpret_cast<const char*>(record), sizeof record);
}

void TlsSession::fail() {
  state_ = State::kFailed;
  alpn_refused_ = ERR_GET_REASON(ERR_peek_error()) == SSL_R_NO_APPLICATION_PROTOCOL;
  error_ = openssl_reason();
}

std::string_view TlsSession::alpn() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

std::shared_ptr<const std::vector<std::string>> TlsSession::peer_names() const { return certificate_names(ssl_.get()); }

bool TlsSession::write(const void* data, size_t n) {
  size_t written = 0;
  ERR_clear_error();
  // The sink takes everything, so a record is never cut short.
  for (const char* at = static_cast<const char*>(data); n != 0; at += written, n -= written)
    if (SSL_write_ex(ssl_.get(), at, n, &written) != 1) {
      fail();
      return false;
    }
  return true;
}

// Sealed bytes are copies, so they are charged beside the bytes that they were made from. One record is part of
// kOpenBytes.
size_t TlsSession::take_room(std::span<const iovec> pieces) {
  constexpr size_t kRecord = SSL3_RT_MAX_PLAIN_LENGTH;
  size_t wanted = 0;
  for (const auto& piece : pieces) wanted = std::min(wanted + piece.iov_len, kSealAtOnce);
  if (wanted <= kRecord) return kRecord;
  if (!memory_.take(wanted - kRecord)) return kRecord;
  sealed_ += wanted - kRecord;
  return wanted;
}

size_t TlsSession::seal(std::span<const iovec> pieces) {
  (void)wake();
  const size_t most = take_room(pieces);
  size_t total = 0;
  std::string gather = base::SpareText::take();  // small pieces of one record
  for (const auto& piece : pieces) {
    if (total >= most) break;
    size_t n = std::min(piece.iov_len, most - total);
    if (gather.size() + n > SSL3_RT_MAX_PLAIN_LENGTH && !gather.empty()) {
      if (!write(gather.data(), gather.size())) return 0;
      gather.clear();
    }
    if (n > SSL3_RT_MAX_PLAIN_LENGTH) {
      if (!write(piece.iov_base, n)) return 0;
    } else {
      gather.append(static_cast<const char*>(piece.iov_base), n);
    }
    total += n;
  }
  if (!gather.empty() && !write(gather.data(), gather.size())) return 0;
  base::SpareText::keep(std::move(gather));
  return total;
}

void TlsSession::finish() {
  ERR_clear_error();
  if (state_ == State::kOpen || state_ == State::kPeerClosed) SSL_shutdown(ssl_.get());
}

bool TlsSession::peer_keeps_up(base::Time now, size_t undelivered, const wire::Limits& limits) {
  if (output().empty()) {
    output_floor_.stop();
    return true;
  }
  output_floor_.check_socket(undelivered);
  output_floor_.start(now);
  return !output_floor_.below(now, {limits.min_drain_rate, limits.grace, wire::kDrainCredit});
}

bool TlsSession::consumed(size_t n) {
  sent_ += n;
  output_floor_.written(n);
  if (sent_ < output_.size()) return wake();
  sent_ = 0;
  memory_.give(std::exchange(sealed_, 0));
  base::SpareText::keep(std::move(output_));  // 8,000 handshakes that keep theirs until they are idle cost 5 KiB each
  return true;
}

}  // namespace weir::net
