import { expect, test } from 'bun:test';
import { totalCharge } from './fee-kinds.ts';

test('the credits of a request are its charge and every fee', () => {
  const charges = {
    modelCharge: 4000,
    byokPlatformFee: 300,
    managedToolFee: 20,
    agentRuntimeFee: 1,
  };
  expect(totalCharge(charges)).toBe(4321);
});
