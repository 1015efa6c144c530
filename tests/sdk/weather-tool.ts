import { jsonSchema, tool } from 'ai';

export const weatherInput = jsonSchema<{ city: string }>({
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
});

/** A tool for the AI SDK. */
export const getWeather = tool({
  description: 'Weather of a city',
  inputSchema: weatherInput,
  execute: async ({ city }) => `rain in ${city}`,
});
