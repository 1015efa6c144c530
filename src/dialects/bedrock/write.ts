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

/** Parameters that Anthropic has and Bedrock lacks: it marks caches by points between parts. */
const alsoUnspoken = ['parallel_tool_calls', 'user', 'cache_control'];

export function writeRequest(asked: Dialogue, target: Target): UpstreamRequest {
  // Models that never think take `temperature` and `top_p` together.
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

/** Models whose thinking is set by efforts alone take them under OpenAI's name. */
function effortField({ effort }: { effort?: string | undefined }, { thinking }: Target): object {
  if (effort === undefined) return {};
  return thinking === 'effort' ? { reasoning_effort: effort } : { output_config: { effort } };
}

/** Only newer models can be held to a schema; all others get an instruction instead. */
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

/** The fields, or undefined if none of them is set. */
function filled(fields: Readonly<Record<string, unknown>>): object | undefined {
  return Object.values(fields).some((value) => value !== undefined) ? fields : undefined;
}
