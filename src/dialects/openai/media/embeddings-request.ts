/** An embeddings request in OpenAI's words, as clients send it. */
import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import type { Ask } from '../../../core/ask.ts';
import { embeddingsInputsMax } from '../../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../../core/errors.ts';
import { explain } from '../../../core/explain.ts';
import { oneOf, optional } from '../../../core/schema-builders.ts';
import { otherFields } from '../../ask/body/unknown-fields.ts';
import { label, routingFields, wholeAsk } from '../../ask/routing.ts';
import type { EmbeddingsWish } from '../../media/embeddings.ts';
import { isList, misfitOf, tokenMax } from './embeddings-input.ts';

/** Some models have 4,096; this only keeps absurd numbers out. */
const dimensionsMax = 65_536;

const tokens = Type.Array(Type.Integer({ minimum: 0, maximum: tokenMax }), { minItems: 1 });

export const embeddingsSchema = Type.Object({
  ...routingFields,
  input: Type.Union([
    Type.String({ minLength: 1 }),
    Type.Array(Type.String({ minLength: 1 }), { minItems: 1, maxItems: embeddingsInputsMax }),
    tokens,
    Type.Array(tokens, { minItems: 1, maxItems: embeddingsInputsMax }),
  ]),
  encoding_format: optional(oneOf('float', 'base64')),
  dimensions: optional(Type.Integer({ minimum: 1, maximum: dimensionsMax })),
  user: label,
});
const validator = Compile(embeddingsSchema);

export interface EmbeddingsRequest {
  readonly ask: Ask;
  readonly wish: EmbeddingsWish;
}

export function readEmbeddingsRequest(value: Record<string, unknown>): EmbeddingsRequest {
  if (!validator.Check(value)) throw complaint(value);
  const { input, encoding_format, dimensions, user } = value;
  const more = otherFields(value, embeddingsSchema.properties);
  return {
    ask: wholeAsk('embeddings', value, more),
    wish: {
      inputs: isList(input) ? input : [input],
      isList: isList(input),
      encoding: encoding_format === 'base64' ? 'base64' : 'float',
      dimensions: dimensions ?? null,
      user: user ?? null,
      more,
    },
  };
}

/** Four kinds of input are too many for the schema to explain: `misfitOf` explains `input`. */
function complaint(value: Record<string, unknown>): GatewayError {
  const { input, ...rest } = value;
  const [problem] = explain(Type.Omit(embeddingsSchema, ['input']), rest);
  const { path, message } = problem ?? misfitOf(input);
  return invalidRequest(`${path} ${message}.`, path);
}
