/** Written by `python -m koda_ray.plugins`, whose definition it is; not by hand. */
import type { CanvasAgent } from './plugin';

export const animationGeneratorPlugin: CanvasAgent = {
  "id": "animation-generator",
  "name": "Animation Generator",
  "description": "A sentence becomes an animation: planned, written and rendered by agents, and changed in words",
  "icon": "🎬",
  "category": "generation",
  "type": "agent",
  "version": "1.0.0",
  "author": {
    "type": "official",
    "name": "koda",
    "verified": true
  },
  "visibility": "public",
  "rendering": {
    "mode": "node",
    "component": "AnimationNode",
    "defaultSize": {
      "width": 420,
      "height": "auto"
    },
    "resizable": true,
    "collapsible": true
  },
  "capabilities": [
    "canvas:read",
    "storage:upload",
    "sandbox:persistent"
  ],
  "services": [
    "ai",
    "theatre-sandbox",
    "render",
    "storage"
  ],
  "sandboxConfig": {
    "type": "theatre",
    "template": "koda/animation-sandbox:latest",
    "timeout": 1800,
    "checkpointInterval": 30.0,
    "idleTimeout": 300.0,
    "resources": {
      "memory": "2048MB"
    }
  },
  "phases": [
    {
      "id": "idle",
      "label": "Ready",
      "initial": true,
      "terminal": false,
      "skippable": false,
      "requiresApproval": false,
      "showProgress": false
    },
    {
      "id": "question",
      "label": "Question",
      "initial": false,
      "terminal": false,
      "skippable": true,
      "requiresApproval": false,
      "showProgress": false
    },
    {
      "id": "plan",
      "label": "Plan",
      "initial": false,
      "terminal": false,
      "skippable": false,
      "requiresApproval": true,
      "showProgress": false
    },
    {
      "id": "executing",
      "label": "Making it",
      "initial": false,
      "terminal": false,
      "skippable": false,
      "requiresApproval": false,
      "showProgress": true
    },
    {
      "id": "preview",
      "label": "Preview",
      "initial": false,
      "terminal": false,
      "skippable": false,
      "requiresApproval": true,
      "showProgress": false
    },
    {
      "id": "complete",
      "label": "Finished",
      "initial": false,
      "terminal": true,
      "skippable": false,
      "requiresApproval": false,
      "showProgress": false
    },
    {
      "id": "error",
      "label": "Stopped",
      "initial": false,
      "terminal": true,
      "skippable": false,
      "requiresApproval": false,
      "showProgress": false
    }
  ],
  "handles": {
    "inputs": [
      {
        "id": "prompt",
        "name": "Prompt",
        "type": "text",
        "required": true,
        "optional": false,
        "multiple": false
      },
      {
        "id": "style",
        "name": "Style",
        "type": "text",
        "required": false,
        "optional": true,
        "multiple": false
      },
      {
        "id": "assets",
        "name": "Assets",
        "type": "media",
        "required": false,
        "optional": true,
        "multiple": true
      }
    ],
    "outputs": [
      {
        "id": "video",
        "name": "Video",
        "type": "video",
        "required": false,
        "optional": false,
        "multiple": false
      },
      {
        "id": "thumbnail",
        "name": "Thumbnail",
        "type": "image",
        "required": false,
        "optional": false,
        "multiple": false
      }
    ]
  },
  "settings": [
    {
      "id": "options.duration",
      "name": "Length",
      "type": "number",
      "unit": "s",
      "minimum": 0.5,
      "maximum": 300.0,
      "options": []
    },
    {
      "id": "options.aspect",
      "name": "Shape",
      "type": "choice",
      "options": [
        "16:9",
        "9:16",
        "1:1",
        "4:5"
      ]
    },
    {
      "id": "options.fps",
      "name": "Frames per second",
      "type": "number",
      "unit": "fps",
      "minimum": 1.0,
      "maximum": 120.0,
      "options": []
    },
    {
      "id": "render.resolution",
      "name": "Size of the video",
      "type": "choice",
      "options": [
        "720p",
        "1080p",
        "4k"
      ],
      "default": "1080p"
    },
    {
      "id": "render.fps",
      "name": "Frames per second of the video",
      "type": "choice",
      "unit": "fps",
      "options": [
        30,
        60
      ],
      "default": 60
    },
    {
      "id": "render.format",
      "name": "Format of the video",
      "type": "choice",
      "options": [
        "mp4",
        "webm"
      ],
      "default": "mp4"
    }
  ]
};
