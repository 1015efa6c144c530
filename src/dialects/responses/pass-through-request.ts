/** A Responses client's request for an upstream of that kind: the same words, edited as needed. */
import { keepCachesApart } from '../ask/account/cache-names.ts';
import { leaveOutPricedApart } from '../ask/account/priced-apart.ts';
import { type Edits, editBody, leaveOutOf, ourWords } from '../ask/body/edit-body.ts';
import { leaveOutLookalikes } from '../ask/body/unknown-fields.ts';
import { effortWord, refusesSampling } from '../ask/effort.ts';
import { outputLimit } from '../ask/output-limit.ts';
import { withDependents } from '../ask/tools/tool-fields.ts';
import type { Target, UpstreamRequest } from '../dialect.ts';
import { refuses } from '../parameters.ts';
import { mendInput } from './mend-input.ts';
import { leaveOutPaidTools } from './paid-tools.ts';
import type { ResponsesRequest } from './request.ts';
import { encryptedThoughts, type ResponsesBody, responsesSchema } from './request-schema.ts';
import { outputTokensMin } from './write.ts';

export function passResponse(request: ResponsesRequest, target: Target): UpstreamRequest {
  const body: ResponsesBody & Record<string, unknown> = request.body;
  const edits: Edits = { model: target.upstreamModel };
  leaveOutOf(body, ourWords, edits);
  leaveOutLookalikes(body, responsesSchema.properties, edits);
  limitOutput(body, target, edits);
  // The gateway stores no responses, so the upstream must not store them either.
  if (body.store !== false) edits.store = false;
  const left = leaveOutPaidTools(body, target, edits);
  const input = mendInput(left.input, target.images);
  if (input !== body.input) edits.input = input;
  const dropped = new Set([...leaveOutPricedApart(body, target, edits), ...left.dropped]);
  const drop = (name: string) => {
    if ((body[name] ?? null) === null) return;
    edits[name] = undefined;
    dropped.add(name);
  };
  keepCachesApart(body, request.tenantId, edits);
  askForThoughts(body, target, edits);
  if (setEffort(body, target, edits, drop)) for (const name of ['temperature', 'top_p']) drop(name);
  const { drop_params: refused = [] } = target.quirks;
  for (const name of refused) drop(name);
  if (refuses(target.quirks, 'reasoning')) drop('reasoning');
  if (refused.length > 0) leaveOutOf(body, withDependents(refused), edits);
  return {
    path: '/responses',
    body: editBody({ body, source: request.source }, edits),
    dropped: [...dropped],
  };
}

function limitOutput(body: ResponsesBody, target: Target, edits: Edits): void {
  const cap = outputLimit(body.max_output_tokens ?? null, target);
  if (cap === null) return;
  const limit = Math.max(cap, outputTokensMin);
  if (limit !== body.max_output_tokens) edits.max_output_tokens = limit;
}

/** Asks for encrypted thoughts, since none are stored; models that do not think refuse that. */
function askForThoughts(body: ResponsesBody, { thinking }: Target, edits: Edits): void {
  const include = body.include ?? [];
  if (thinking === null) {
    const rest = include.filter((name) => name !== encryptedThoughts);
    if (rest.length < include.length) edits.include = rest.length > 0 ? rest : undefined;
  } else if (!include.includes(encryptedThoughts)) {
    edits.include = [...include, encryptedThoughts];
  }
}

/** Sets the effort in the vendor's words. True if that rules out sampling parameters. */
function setEffort(
  body: ResponsesBody,
  { quirks, thinking }: Target,
  edits: Edits,
  drop: (name: string) => void,
): boolean {
  const effort = body.reasoning?.effort ?? null;
  if (thinking === null) {
    // To such a model, the wish not to think is no loss.
    if (effort === 'none') edits.reasoning = undefined;
    else drop('reasoning');
    return false;
  }
  const word = effortWord(effort, quirks);
  if (effort !== null && word !== effort) edits.reasoning = { ...body.reasoning, effort: word };
  return refusesSampling(word, quirks);
}
