import { Type } from 'typebox';
import { skillDescriptionMax, skillInstructionsMax } from '../core/bounds.ts';
import { nullable, oneOf } from '../core/schema.ts';
import { data, deletedSchema, record, type Shape, text, time } from './fields.ts';
import { withFields } from './request-rules.ts';
import type { RouteDoc } from './route-doc.ts';

// Skills: instructions that a chat request can name.

/** The service checks the lengths, because it trims the text first. */
export const newSkillSchema = record('NewSkill', {
  description: text(`One line of 1 to ${skillDescriptionMax} characters.`),
  instructions: text(`1 to ${skillInstructionsMax} characters.`),
});
export type NewSkillRequest = Shape<typeof newSkillSchema>;

const skillFields = {
  name: text(),
  description: text(),
  source: oneOf('built_in', 'customer'),
  created_at: nullable(time('UTC; null for built-in skills.')),
  updated_at: nullable(time('UTC; null for built-in skills.')),
};

const skillSummarySchema = record('SkillSummary', skillFields);
export type SkillSummaryObject = Shape<typeof skillSummarySchema>;

const skillSchema = record('Skill', { ...skillFields, instructions: text() });
export type SkillObject = Shape<typeof skillSchema>;

const path = { name: '1 to 64 lowercase letters, digits, and hyphens.' };

export const skillDocs = {
  list: {
    summary: 'List skills',
    details: 'Skills are instructions that a chat request names in `skills`.',
    responses: { 200: data(Type.Array(skillSummarySchema)) },
  },
  show: { summary: 'Get a skill', path, responses: { 200: data(skillSchema) } },
  put: {
    summary: 'Save a skill',
    path,
    body: withFields(newSkillSchema, {
      description: { ...newSkillSchema.properties.description, minLength: 1 },
      instructions: { ...newSkillSchema.properties.instructions, minLength: 1 },
    }),
    example: { description: 'Our tone', instructions: 'Write short sentences.' },
    responses: { 200: data(skillSchema) },
  },
  delete: { summary: 'Delete a skill', path, responses: { 200: deletedSchema } },
} satisfies Record<string, RouteDoc>;
