import { expect, test } from 'bun:test';
import { Check } from 'typebox/schema';
import { type ModelConfig, modelSchema } from '../config/model-schema.ts';
import { demoModels } from './models.ts';

test('the 5 demo models match the configuration schema', () => {
  const models: readonly ModelConfig[] = demoModels;
  expect(models.map((model) => model.id)).toEqual([
    'demo/chat',
    'demo/embed',
    'demo/speech',
    'demo/transcribe',
    'demo/image',
  ]);
  expect(models.filter((model) => !Check(modelSchema, model))).toEqual([]);
});

test('every demo model says that it is a demo and has a price', () => {
  for (const { name, description, endpoints } of demoModels) {
    expect(name).toStartWith('Demo ');
    expect(description).toStartWith('Demo, ');
    const prices = endpoints.flatMap(({ pricing }) => Object.values(pricing));
    expect(prices.some((price) => Number(price) > 0)).toBe(true);
  }
});
