import { Type } from 'typebox';
import { embeddingsSchema } from '../../dialects/openai/media/embeddings-request.ts';
import { count, named, type RouteDoc, text } from './doc.ts';

const embeddings = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(
      Type.Object({
        object: Type.Literal('embedding'),
        index: count('The place of its input.'),
        embedding: Type.Union([
          Type.Array(Type.Number()),
          text('Little-endian 32-bit floats in base64.'),
        ]),
      }),
    ),
    model: text('The alias that answered.'),
    usage: Type.Object({ prompt_tokens: count(), total_tokens: count() }),
  },
  { title: 'Embeddings' },
);

export const embeddingsDocs = {
  create: {
    summary: 'Turn texts into vectors',
    details: 'As at OpenAI: one text, up to 2048 of them, or the numbers of their tokens.',
    body: named('EmbeddingsRequest', embeddingsSchema),
    example: { model: 'demo/embed', input: ['Hello!', 'Good morning!'] },
    answers: { 200: embeddings },
  },
} satisfies Record<string, RouteDoc>;
