import { nearest } from '../core/text.ts';
import { prefixPattern } from './paths.ts';
import type { Route } from './routes.ts';

/** Routes of other APIs that are not served here, and what to call instead. */

const statelessHint =
  'No conversation is kept between requests; send it whole, to POST /v1/chat/completions or ' +
  'POST /v1/responses.';

/** For programs that were given a base URL where they want the whole address of an endpoint. */
const baseUrlHint =
  'This is a base URL, to which clients append the rest: POST /v1/chat/completions, ' +
  'POST /v1/messages and so on.';

/** The first pattern that fits a path, without its prefixes, decides which sentence is told. */
const suggestions: readonly (readonly [RegExp, string])[] = [
  [
    /^\/responses\/(?:compact|input_tokens)$/,
    'Conversations are not compacted, and their tokens not counted, for clients of this API; ' +
      'POST /v1/responses answers them.',
  ],
  [
    /^\/responses\/./,
    'POST /v1/responses answers at once and keeps nothing, so there is no response to fetch, ' +
      'cancel or delete.',
  ],
  [
    /^\/(?:engines\/.+\/)?completions$/,
    'Text completions are not offered; send the prompt as a message to POST /v1/chat/completions.',
  ],
  [
    /^\/realtime(?:\/|$)/,
    'Live audio is not offered; POST /v1/audio/transcriptions, POST /v1/chat/completions and ' +
      'POST /v1/audio/speech do it one turn at a time.',
  ],
  [
    /^\/audio\/translations$/,
    'Translation of speech is not offered; POST /v1/audio/transcriptions writes it down, and ' +
      'POST /v1/chat/completions can translate the text.',
  ],
  [
    /^\/images\/variations$/,
    'Variations are not offered; POST /v1/images/edits makes one from an image and a prompt.',
  ],
  [/^\/videos?(?:\/|$)/, 'Videos are not offered; POST /v1/images/generations makes images.'],
  [
    /^\/moderations$/,
    'Moderation is not offered; POST /v1/chat/completions can ask a model to judge a text.',
  ],
  [/^\/rerank$/, 'Reranking is not offered; POST /v1/embeddings gives vectors to compare.'],
  [
    /^\/(?:files|uploads|vector_stores|containers)(?:\/|$)/,
    'No files are kept; send them inside the request, and long recordings to POST /v1/jobs.',
  ],
  [
    /^\/(?:messages\/)?batches(?:\/|$)/,
    'Batches are not offered; send each request by itself, several at the same time. Long audio ' +
      'has POST /v1/jobs.',
  ],
  [/^\/(?:assistants|threads|conversations)(?:\/|$)/, statelessHint],
  [
    /^\/(?:fine_tuning|fine-tunes|evals)(?:\/|$)/,
    'Models are called here, not trained or evaluated; do that at their provider.',
  ],
  [
    /:(?:stream)?generateContent$/i,
    'Gemini’s own format is not served; POST /v1/chat/completions calls its models.',
  ],
  [
    /^\/deployments\/./,
    'Azure’s own addresses are not served; set the client up for OpenAI itself, with a base URL ' +
      'that ends with /v1.',
  ],
  [
    /^\/(?:generate|tags|show|ps)$/,
    'Ollama’s own format is not served; set the client up for an OpenAI server, with a base URL ' +
      'that ends with /v1.',
  ],
  [
    /^\/(?:ai\/config|(?:ai\/)?[a-z]+-model)$/,
    'The AI SDK’s own gateway format is not served; use its provider @ai-sdk/openai-compatible, ' +
      'with a base URL that ends with /v1.',
  ],
  [
    /^\/(?:livez?|liveness|ping|status|heartbeat|health\/read\w+)$/,
    'GET /healthz tells whether the process is alive, GET /readyz whether it can take requests.',
  ],
  [/^\/(?:ui|admin|login)$/, 'The dashboard is at GET /dashboard.'],
  [
    /^\/key\/generate$/,
    'LiteLLM’s own routes for keys are not served; POST /api/v1/keys makes keys, with a ' +
      'management key.',
  ],
];

export function suggestionFor(path: string): string | undefined {
  const segments = path.split('/').slice(1);
  const start = segments.findIndex((segment) => !prefixPattern.test(segment));
  if (start < 0) return baseUrlHint;
  const rest = `/${segments.slice(start).join('/')}`;
  return suggestions.find(([pattern]) => pattern.test(rest))?.[1];
}

/** Which route was meant by a path that has none: mistyped, or remembered from another API. */

/**
 * A longer path is no typing error, and comparing it would cost time that strangers could waste.
 */
const comparedLengthMax = 100;

/** Shorter words are the beginning of too many others. */
const prefixLengthMin = 4;

interface NearestRoute {
  readonly route: Route;
  /**
   * Whether it is similar enough to ask if it was meant; else it is only nearer than the others.
   */
  readonly isSimilar: boolean;
}

export function nearestRoute(
  method: string,
  path: string,
  routes: readonly Route[],
): NearestRoute | undefined {
  if (path.length > comparedLengthMax) return undefined;
  const requestedSegments = segmentsOf(path);
  const sameMethod = routes.filter((route) => route.method === method);
  // A single word is more often a name of ours in the wrong place than a misspelt name.
  const similar =
    (requestedSegments.length > 1 ? similarlySpelled(requestedSegments, sameMethod) : undefined) ??
    withSharedName(requestedSegments, sameMethod) ??
    similarlySpelled(requestedSegments, sameMethod) ??
    similarlySpelled(requestedSegments, routes);
  if (similar) return { route: similar, isSimilar: true };
  const fallback =
    mostShared(requestedSegments, sameMethod) ??
    mostShared(requestedSegments, routes) ??
    closest(path, sameMethod);
  return fallback && { route: fallback, isSimilar: false };
}

/** The names in a path, without the versions in front and the variable parts. */
function segmentsOf(path: string): readonly string[] {
  const segments = path.toLowerCase().split('/');
  return segments.filter(
    (segment) => segment !== '' && !segment.startsWith(':') && !prefixPattern.test(segment),
  );
}

function isSameName(a: string, b: string): boolean {
  if (a === b) return true;
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  return short.length >= prefixLengthMin && long.startsWith(short);
}

/** How many names of one path another path has, too. */
function countShared(some: readonly string[], others: readonly string[]): number {
  return some.filter((segment) => others.some((other) => isSameName(segment, other))).length;
}

/** A route that has the first name of the path, or all of whose names are in the path. */
function withSharedName(
  requestedSegments: readonly string[],
  routes: readonly Route[],
): Route | undefined {
  const candidates = routes.filter(({ path }) => {
    const routeSegments = segmentsOf(path);
    const isWithin =
      routeSegments.length > 1 &&
      countShared(routeSegments, requestedSegments) === routeSegments.length;
    return isWithin || countShared(requestedSegments.slice(0, 1), routeSegments) === 1;
  });
  return mostShared(requestedSegments, candidates);
}

/** The route that shares most names with the path; of several, the first with the fewest others. */
function mostShared(
  requestedSegments: readonly string[],
  routes: readonly Route[],
): Route | undefined {
  let best: Route | undefined;
  let bestScore = 0;
  for (const route of routes) {
    const routeSegments = segmentsOf(route.path);
    const shared = countShared(requestedSegments, routeSegments);
    // Other names count far less than a shared one: they only decide between equals.
    const score = shared && shared - routeSegments.length / comparedLengthMax;
    if (score <= bestScore) continue;
    best = route;
    bestScore = score;
  }
  return best;
}

function similarlySpelled(
  requestedSegments: readonly string[],
  routes: readonly Route[],
): Route | undefined {
  const spelling = requestedSegments.join('/');
  // Little may be wrong in a short word, or it is another word.
  const distanceMax = Math.min(Math.max(2, Math.floor(spelling.length / 3)), spelling.length - 2);
  const spellings = routes.map(({ path }) => segmentsOf(path).join('/'));
  const match = nearest(spelling, spellings, distanceMax);
  return match === undefined ? undefined : routes[spellings.indexOf(match)];
}

function closest(path: string, routes: readonly Route[]): Route | undefined {
  const paths = routes.map((route) => route.path);
  const match = nearest(path, paths, comparedLengthMax);
  return match === undefined ? undefined : routes[paths.indexOf(match)];
}
