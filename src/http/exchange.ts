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
  /** Its client came by OpenRouter's spelling of the path. */
  readonly openRouterStyle: boolean;
  /** Known before its route is: what Anthropic's clients ask, and how they read errors. */
  readonly isOfAnthropicClient: boolean;
  errorShape: ErrorShape;
  /** Headers that every answer to this request carries, whatever becomes of it. */
  readonly headers: Record<string, string>;
  /** Of an answer that is sent whole; undefined where it goes out piece by piece. */
  answerLength: number | undefined;
  /** For how many seconds from now its connection may be silent; 0: for ever. */
  bearSilence: (seconds: number) => void = () => undefined;
  /** Tells the operator why an answer failed after it had begun. One function for all exchanges. */
  tellLate: (exchange: Exchange, thrown: unknown) => void = tellNobody;
  #match: Match | undefined;

  constructor(request: Request) {
    this.request = request;
    const { path, openRouterStyle, anthropicStyle } = normalisePath(pathOf(request.url));
    this.path = path;
    this.openRouterStyle = openRouterStyle;
    // Both families ask for models at one address; only a header tells them apart there.
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
      // Not every key comes in a header that caches know to be one, and secrets are shown once.
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

  /** Where the client found us. */
  get origin(): string {
    return this.#url.origin;
  }

  get #url(): URL {
    const { url } = this.request;
    // A host can be anything, such as `:80`; what was asked of it is clear all the same.
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
