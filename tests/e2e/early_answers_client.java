// Java's own HttpClient, which looks at no answer before all of its body is sent. Sends bodies that nobody wants, over
// HTTP/2 and HTTP/1.1, and prints the status of each answer, or the kind of the error. Arguments: a URL, and bytes of a
// body.
import java.io.IOException;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.cert.X509Certificate;
import java.time.Duration;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509ExtendedTrustManager;

class EarlyAnswersClient {
  // The server's certificate is one of the test's.
  static final class Anybody extends X509ExtendedTrustManager {
    @Override public void checkClientTrusted(X509Certificate[] chain, String type) {}
    @Override public void checkClientTrusted(X509Certificate[] chain, String type, Socket socket) {}
    @Override public void checkClientTrusted(X509Certificate[] chain, String type, SSLEngine engine) {}
    @Override public void checkServerTrusted(X509Certificate[] chain, String type) {}
    @Override public void checkServerTrusted(X509Certificate[] chain, String type, Socket socket) {}
    @Override public void checkServerTrusted(X509Certificate[] chain, String type, SSLEngine engine) {}
    @Override public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
  }

  public static void main(String[] args) throws Exception {
    SSLContext tls = SSLContext.getInstance("TLS");
    tls.init(null, new TrustManager[] {new Anybody()}, null);
    byte[] body = new byte[Integer.parseInt(args[1])];
    for (HttpClient.Version version : HttpClient.Version.values()) {
      HttpClient client = HttpClient.newBuilder().sslContext(tls).version(version).build();
      HttpRequest request = HttpRequest.newBuilder(URI.create(args[0])).timeout(Duration.ofSeconds(25))
          .POST(HttpRequest.BodyPublishers.ofByteArray(body)).build();
      try {
        HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.version() + " " + answer.statusCode());
      } catch (IOException error) {
        System.out.println(version + " " + error.getClass().getSimpleName());
      }
    }
    System.exit(0);  // its clients have threads that stay
  }
}
