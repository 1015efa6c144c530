import { nearest } from '../core/text.ts';
import { prefixPattern } from './paths.ts';
import type { Route } from './routes.ts';

const statelessHint =
  "Tollgate doesn't store conversations. Send the full conversation to POST /v1/chat/completions " +
  'or POST /v1/responses.';

/** Shown if the path is only a base URL, without an endpoint. */
const baseUrlHint =
  'This is a base URL. Clients append the endpoint, such as POST /v1/chat/completions or ' +
  'POST /v1/messages.';

/**
 * Suggestions for endpoints of other APIs that Tollgate doesn't have. Each pattern is matched
 * against the path without its prefixes. The first match applies.
 */
const suggestions: readonly (readonly [RegExp, string])[] = [
  [
    /^\/responses\/(?:compact|input_tokens)$/,
    'Compacting and token counting are not supported for responses. Use POST /v1/responses.',
  ],
  [
    /^\/responses\/./,
    "Tollgate doesn't store responses, so you can't retrieve, cancel, or delete one. Use " +
      'POST /v1/responses.',
  ],
  [
    /^\/(?:engines\/.+\/)?completions$/,
    'Text completions are not supported. Send the prompt as a message to ' +
      'POST /v1/chat/completions.',
  ],
  [
    /^\/realtime(?:\/|$)/,
    'Realtime audio is not supported. Use POST /v1/audio/transcriptions, ' +
      'POST /v1/chat/completions, and POST /v1/audio/speech for each turn.',
  ],
  [
    /^\/audio\/translations$/,
    'Speech translation is not supported. Use POST /v1/audio/transcriptions, then ' +
      'POST /v1/chat/completions to translate the text.',
  ],
  [
    /^\/images\/variations$/,
    'Image variations are not supported. Use POST /v1/images/edits with an image and a prompt.',
  ],
  [/^\/videos?(?:\/|$)/, 'Videos are not supported. For images, use POST /v1/images/generations.'],
  [
    /^\/moderations$/,
    'Moderation is not supported. Ask a model to rate the text with POST /v1/chat/completions.',
  ],
  [/^\/rerank$/, 'Reranking is not supported. Compare vectors from POST /v1/embeddings.'],
  [
    /^\/(?:files|uploads|vector_stores|containers)(?:\/|$)/,
    "Tollgate doesn't store files. Send files in the request, and long recordings to " +
      'POST /v1/jobs.',
  ],
  [
    /^\/(?:messages\/)?batches(?:\/|$)/,
    'Batches are not supported. Send single requests in parallel, or long audio to ' +
      'POST /v1/jobs.',
  ],
  [/^\/(?:assistants|threads|conversations)(?:\/|$)/, statelessHint],
  [
    /^\/(?:fine_tuning|fine-tunes|evals)(?:\/|$)/,
    "Tollgate doesn't train or evaluate models. Use the provider's own API for that.",
  ],
  [
    /:(?:stream)?generateContent$/i,
    "Gemini's API format is not supported. Call its models with POST /v1/chat/completions.",
  ],
  [
    /^\/deployments\/./,
    "Azure's URLs are not supported. Configure the client for OpenAI, with a base URL that ends " +
      'in /v1.',
  ],
  [
    /^\/(?:generate|tags|show|ps)$/,
    "Ollama's API format is not supported. Configure the client for an OpenAI server, with a " +
      'base URL that ends in /v1.',
  ],
  [
    /^\/(?:ai\/config|(?:ai\/)?[a-z]+-model)$/,
    "The AI SDK's gateway format is not supported. Use its provider " +
      '@ai-sdk/openai-compatible, with a base URL that ends in /v1.',
  ],
  [
    /^\/(?:livez?|liveness|ping|status|heartbeat|health\/read\w+)$/,
    'Use GET /healthz to check that the process is alive, or GET /readyz to check that it can ' +
      'take requests.',
  ],
  [/^\/(?:ui|admin|login)$/, 'The dashboard is at GET /dashboard.'],
  [
    /^\/key\/generate$/,
    "LiteLLM's key endpoints are not supported. Create keys with POST /api/v1/keys and a " +
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

/** Longer paths aren't typos. Comparing their names would let strangers occupy the process. */
const comparedLengthMax = 100;
const comparedNamesMax = 8;

/** Shorter names are prefixes of too many other names. */
const prefixLengthMin = 4;

/** A route with the names in its path: its segments without prefixes and parameters. */
export interface NamedRoute {
  readonly route: Route;
  readonly names: readonly string[];
  /** The names as a path, to compare spellings. */
  readonly spelling: string;
}

export function toNamedRoute(route: Route): NamedRoute {
  const names = namesOf(route.path);
  return { route, names, spelling: names.join('/') };
}

interface NearestRoute {
  readonly route: Route;
  /** True if the path is probably a misspelling of this route. */
  readonly isSimilar: boolean;
}

export function nearestRoute(
  method: string,
  path: string,
  routes: readonly NamedRoute[],
): NearestRoute | undefined {
  const sameMethod = routes.filter(({ route }) => route.method === method);
  const names = path.length > comparedLengthMax ? [] : namesOf(path);
  if (names.length === 0 || names.length > comparedNamesMax) return sameBeginning(path, sameMethod);
  const misspelled = similarlySpelled(names, sameMethod);
  // A single name is more often correct but at the wrong path than misspelled.
  const similar =
    (names.length > 1 ? misspelled : undefined) ??
    withSharedName(names, sameMethod) ??
    misspelled ??
    similarlySpelled(names, routes);
  if (similar) return { route: similar.route, isSimilar: true };
  const related = mostShared(names, sameMethod) ?? mostShared(names, routes);
  return related ? { route: related.route, isSimilar: false } : sameBeginning(path, sameMethod);
}

/** Finds the route with the longest common beginning. On a tie, the shortest route wins. */
function sameBeginning(path: string, routes: readonly NamedRoute[]): NearestRoute | undefined {
  let best: Route | undefined;
  let bestLength = -1;
  for (const { route } of routes) {
    let length = 0;
    while (length < route.path.length && route.path[length] === path[length]) length += 1;
    if (length < bestLength) continue;
    if (length === bestLength && route.path.length >= (best?.path.length ?? 0)) continue;
    best = route;
    bestLength = length;
  }
  return best && { route: best, isSimilar: false };
}

function namesOf(path: string): readonly string[] {
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

/** Counts the names that two paths share. */
function countShared(some: readonly string[], others: readonly string[]): number {
  return some.filter((name) => others.some((other) => isSameName(name, other))).length;
}

/** Finds a route that contains the path's first name, or whose names are all in the path. */
function withSharedName(
  requestedNames: readonly string[],
  routes: readonly NamedRoute[],
): NamedRoute | undefined {
  const candidates = routes.filter(({ names }) => {
    const isWithin = names.length > 1 && countShared(names, requestedNames) === names.length;
    return isWithin || countShared(requestedNames.slice(0, 1), names) === 1;
  });
  return mostShared(requestedNames, candidates);
}

/** Finds the route that shares the most names with the path. On a tie, the shortest route wins. */
function mostShared(
  requestedNames: readonly string[],
  routes: readonly NamedRoute[],
): NamedRoute | undefined {
  let best: NamedRoute | undefined;
  let bestScore = 0;
  for (const route of routes) {
    const shared = countShared(requestedNames, route.names);
    // The number of names only breaks ties.
    const score = shared && shared - route.names.length / comparedLengthMax;
    if (score <= bestScore) continue;
    best = route;
    bestScore = score;
  }
  return best;
}

function similarlySpelled(
  requestedNames: readonly string[],
  routes: readonly NamedRoute[],
): NamedRoute | undefined {
  const requested = requestedNames.join('/');
  // A short name with several differences is a different name.
  const distanceMax = Math.min(Math.max(2, Math.floor(requested.length / 3)), requested.length - 2);
  const spellings = routes.map(({ spelling }) => spelling);
  const match = nearest(requested, spellings, distanceMax);
  return match === undefined ? undefined : routes[spellings.indexOf(match)];
}
