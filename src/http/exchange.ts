import { invalidRequest } from '../core/errors.ts';
import { newRequestId } from '../core/ids.ts';
import { normalisePath, type RoutePath } from './paths.ts';
import type { Match } from './router.ts';

/** How an error body looks to the client at hand. */
export type ErrorShape = 'plain' | 'images' | 'messages';

/** One HTTP request on its way through. Handlers see this and nothing of the web framework. */
export class Exchange {
  readonly request: Request;
  readonly requestId = newRequestId();
  readonly route: RoutePath;
  errorShape: ErrorShape;
  /** Headers that every answer to this request carries, whatever becomes of it. */
  readonly headers: Record<string, string>;
  /** What its body calls the model, once that was read. */
  modelNamed = '';
  /** How much a client has to take at once; undefined where pieces go out one by one. */
  answerLength: number | undefined;
  /** Its connection may be silent for so long from now on, in seconds; 0 is for ever. */
  bearSilence: (seconds: number) => void = () => undefined;
  #match: Match | undefined;

  constructor(request: Request) {
    this.request = request;
    this.route = normalisePath(pathOf(request.url));
    this.errorShape = this.isOfAnthropicClient ? 'messages' : 'plain';
    this.headers = {
      'x-request-id': this.requestId,
      // SDKs of the two families each read their own request-id header.
      'request-id': this.requestId,
      // Keys are bearer tokens and there are no cookies, so any origin may ask.
      'access-control-allow-origin': '*',
      'access-control-expose-headers': '*',
    };
  }

  open(match: Match): void {
    this.#match = match;
    this.errorShape = match.route.errorShape ?? this.errorShape;
  }

  /** Both families ask for models at one address; only a header tells them apart there. */
  get isOfAnthropicClient(): boolean {
    const { anthropicStyle, path } = this.route;
    const isShared = path.startsWith('/v1/models');
    return anthropicStyle || (isShared && this.request.headers.has('anthropic-version'));
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
