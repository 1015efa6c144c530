/** A dialogue as a request to Bedrock's Converse. */
import type { Dialogue } from '../../core/dialogue.ts';
import { outputSchema } from '../anthropic/clean-schema.ts';
import { sayable, writeLimits } from '../anthropic/sayable.ts';
import { jsonInstruction } from '../ask/json-wish.ts';
import type { Target, UpstreamRequest } from '../dialect.ts';
import { stopSequencePaths } from './finish.ts';
import { ContentWriter } from './write-content.ts';
import { writeTools } from './write-tools.ts';
import { writeTurns } from './write-turns.ts';

/** What Anthropic has words for and Bedrock has not: cache points stand between parts here. */
const alsoUnspoken = ['parallel_tool_calls', 'user', 'cache_control'];

export function writeRequest(asked: Dialogue, target: Target): UpstreamRequest {
  // Models that never think take both ways to sample.
  const isPicky = target.thinking !== null;
  const said = sayable(asked, target, { alsoUnspoken, isPicky });
  const { dialogue, reasoning, limit, outputTokensMax, dropped } = said;
  const writer = new ContentWriter(target, dropped);
  const { system, messages } = writeTurns(dialogue.turns, writer, target, reasoning.isOn);
  const { instruction, outputConfig } = writeJson(dialogue, target);
  const instructions = instruction ? [...system, { text: instruction }] : system;
  const body = {
    system: instructions.length > 0 ? instructions : undefined,
    messages,
    inferenceConfig: writeConfig(dialogue, reasoning.isOn ? outputTokensMax : limit, dropped),
    toolConfig: writeTools(dialogue, writer, target, dropped),
    outputConfig,
    additionalModelRequestFields: filled({
      top_k: dialogue.sampling.topK,
      thinking: reasoning.thinking,
      ...effortField(reasoning, target),
    }),
    additionalModelResponseFieldPaths: dialogue.stop.length > 0 ? stopSequencePaths : undefined,
  };
  const model = encodeURIComponent(target.upstreamModel.toWellFormed());
  return {
    path: `/model/${model}/${dialogue.stream ? 'converse-stream' : 'converse'}`,
    body: JSON.stringify(body),
    dropped: [...dropped],
  };
}

function writeConfig(
  dialogue: Dialogue,
  maxTokens: number | null,
  dropped: Set<string>,
): object | undefined {
  const { temperature, stops } = writeLimits(dialogue, dropped);
  return filled({
    maxTokens: maxTokens ?? undefined,
    temperature,
    topP: dialogue.sampling.topP,
    stopSequences: stops,
  });
}

/** Models that know efforts and nothing else of thinking take them by OpenAI's name. */
function effortField({ effort }: { effort?: string | undefined }, { thinking }: Target): object {
  if (effort === undefined) return {};
  return thinking === 'effort' ? { reasoning_effort: effort } : { output_config: { effort } };
}

/** Only newer models hold to a schema: where it is not said of one, it is told what to do. */
function writeJson({ json }: Dialogue, { quirks }: Target) {
  if (json === null) return {};
  if (json.schema === null || quirks.json_schema !== 'native') {
    return { instruction: jsonInstruction(json.schema) };
  }
  const { name, description } = json;
  const schema = JSON.stringify(outputSchema(json.schema));
  const jsonSchema = { schema, name, description };
  return { outputConfig: { textFormat: { type: 'json_schema', structure: { jsonSchema } } } };
}

/** Undefined where there is nothing in it. */
function filled(fields: Readonly<Record<string, unknown>>): object | undefined {
  return Object.values(fields).some((value) => value !== undefined) ? fields : undefined;
}
