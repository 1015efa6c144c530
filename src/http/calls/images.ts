import type { UploadTray } from '../../core/upload.ts';
import { readImagesRequest } from '../../dialects/openai/media/images-request.ts';
import { ImagesErrand } from '../../operations/images.ts';
import { readJson } from '../body/body.ts';
import { imagesDocs } from '../openapi/images.ts';
import type { Route } from '../routes.ts';
import { readEdit } from './image-form.ts';
import { callModel, callModelWithFiles, type UploadCallParts } from './model-call.ts';

export function imagesRoutes(parts: UploadCallParts): Route[] {
  return [
    {
      method: 'POST',
      path: '/v1/images/generations',
      doc: imagesDocs.generate,
      errorShape: 'images',
      access: 'routing',
      scope: 'images',
      handle(exchange, caller) {
        const read = async () => {
          const { value } = await readJson(exchange, parts.bodyBytesMax);
          return new ImagesErrand(readImagesRequest(value));
        };
        return callModel(exchange, caller, 'images', read, parts);
      },
    },
    {
      method: 'POST',
      path: '/v1/images/edits',
      doc: imagesDocs.edit,
      errorShape: 'images',
      access: 'routing',
      scope: 'images',
      handle(exchange, caller) {
        const read = async (tray: UploadTray) => {
          const { request, images, mask } = await readEdit(exchange, tray);
          return new ImagesErrand(request, images, mask);
        };
        return callModelWithFiles(exchange, caller, 'images', read, parts);
      },
    },
  ];
}
