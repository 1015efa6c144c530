import { invalidRequest } from '../core/errors.ts';
import { newRequestId } from '../core/ids.ts';
import { normalisePath } from './paths.ts';
import type { Match } from './router.ts';

/** How an error body looks to the client at hand. */
export type ErrorShape = 'plain' | 'images' | 'messages';

/** One HTTP request on its way through. Handlers see this and nothing of the web framework. */
export class Exchange {
  readonly request: Request;
  readonly requestId = newRequestId();
  /** As the route table spells it. */
  readonly path: string;
  /** Whether the client used OpenRouter's spelling of the path. */
  readonly openRouterStyle: boolean;
  /**
   * Whether an Anthropic client asks. Known before the route is, so that any error has its shape.
   */
  readonly isOfAnthropicClient: boolean;
  errorShape: ErrorShape;
  /** Headers that every answer to this request carries, whatever becomes of it. */
  readonly headers: Record<string, string>;
  /** The length of an answer that is sent whole; undefined where it goes out piece by piece. */
  answerLength: number | undefined;
  /** Sets for how many seconds from now the connection may be silent; 0: for ever. */
  allowSilence: (seconds: number) => void = () => undefined;
  /** Tells the operator why an answer failed after it had begun. One function for all exchanges. */
  tellLate: (exchange: Exchange, thrown: unknown) => void = tellNobody;
  #match: Match | undefined;

  constructor(request: Request) {
    this.request = request;
    const { path, openRouterStyle, anthropicStyle } = normalisePath(pathOf(request.url));
    this.path = path;
    this.openRouterStyle = openRouterStyle;
    // Clients of both families list models at one address, where only a header tells them apart.
    const isShared = path.startsWith('/v1/models');
    this.isOfAnthropicClient =
      anthropicStyle || (isShared && request.headers.has('anthropic-version'));
    this.errorShape = this.isOfAnthropicClient ? 'messages' : 'plain';
    this.headers = {
      'x-request-id': this.requestId,
      // SDKs of the two families each read their own request-id header.
      'request-id': this.requestId,
      // Keys are bearer tokens and there are no cookies, so any origin may ask.
      'access-control-allow-origin': '*',
      'access-control-expose-headers': '*',
      // Not every key comes in a header that caches recognise, and secrets are shown only once.
      'cache-control': 'no-store',
    };
  }

  open(match: Match): void {
    this.#match = match;
    this.errorShape = match.route.errorShape ?? this.errorShape;
  }

  /** The route as its table spells it, for counting: never what the client wrote. */
  get pattern(): string {
    return this.#match?.pattern ?? 'none none';
  }

  /** A variable part of the path, decoded. */
  param(name: string): string {
    try {
      return decodeURIComponent(this.#match?.param(name) ?? '');
    } catch {
      throw invalidRequest('The path has a broken percent-encoding.');
    }
  }

  get query(): URLSearchParams {
    return this.#url.searchParams;
  }

  /** The origin by which the client reached us. */
  get origin(): string {
    return this.#url.origin;
  }

  get #url(): URL {
    const { url } = this.request;
    // The host can be invalid, such as `:80`; the path and query are clear all the same.
    return URL.parse(url, nameless) ?? new URL(nameless + behindHost(url));
  }
}

function tellNobody(): void {}

/** For requests that name no host: HTTP/1.0 allows it, and health checks of balancers speak it. */
const nameless = 'http://localhost';

const pathEnd = /[?#]/;

/** The path of a URL, without building a URL object on every request. */
function pathOf(url: string): string {
  const rest = behindHost(url);
  const end = rest.search(pathEnd);
  return (end === -1 ? rest : rest.slice(0, end)) || '/';
}

function behindHost(url: string): string {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('//') + 2);
  return start === -1 ? '' : url.slice(start);
}
